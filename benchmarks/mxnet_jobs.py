"""One conversion of a symbol to ONNX in a process of its own: CPU seconds of it, as JSON.

    python benchmarks/mxnet_jobs.py regraft|mxnet PREFIX OUT '[["data", [2, 3, 96, 96], "float32"]]'

Any Python from 3.6 on runs it: MXNet's last release needs 3.8. Each side converts twice, and what it imports
counts in the first time; nothing is verified, as MXNet's exporter does not.
"""

import json
import os
import sys
import time

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")  # a fused graph is not what the file says


def regraft(prefix, out, inputs):
    """Convert with regraft."""
    import numpy as np

    from regraft import load, rewrite, save

    given = {name: np.zeros(shape, dtype) for name, shape, dtype in inputs}

    def convert():
        save(rewrite(load(prefix + "-symbol.json", given)).graph, out, force=True)

    return convert


def mxnet(prefix, out, inputs):
    """Convert with MXNet's own exporter."""
    import mxnet.onnx  # pyright: ignore[reportMissingImports] - of another Python
    import numpy as np

    shapes, types = [tuple(shape) for _, shape, _ in inputs], [np.dtype(dtype).type for _, _, dtype in inputs]
    files = prefix + "-symbol.json", prefix + "-0000.params"
    return lambda: mxnet.onnx.export_model(*files, shapes, types, out)


def main():
    """Print the CPU seconds of the process until it has converted once, and of the second conversion."""
    side, prefix, out, inputs = sys.argv[1:]
    convert = {"regraft": regraft, "mxnet": mxnet}[side](prefix, out, json.loads(inputs))
    convert()
    whole = time.process_time()
    convert()
    print(json.dumps({"whole": whole, "again": time.process_time() - whole}))


if __name__ == "__main__":
    main()
