"""Speed and memory of the main jobs, as ratios in one process to what a user would run instead.

    python benchmarks/run.py [export | verified | load | convert | cells | passes | memory | runtime |
        functions | eager | depth | mindspore | mxnet | start]… [--repeat N] [--model NAME]… [--store]

Times are of the processor, not of the clock, and jobs that are compared take turns. Each subject is a file of
its own; what a subject needs and is not installed is said. Without subjects: export and passes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's convolutions: before it is imported

import cells
import converting
import depth
import eager
import exporting
import exporting_mxnet
import functions
import handwritten
import history
import memory
import runtime
import scaling
import starting
import verified
from measuring import RATIOS
from models import NAMES, Missing

SUBJECTS = (
    "export",
    "verified",
    "load",
    "convert",
    "cells",
    "passes",
    "memory",
    "runtime",
    "functions",
    "eager",
    "depth",
    "mindspore",
    "mxnet",
    "start",
)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", action="append", choices=NAMES, help="default: resnet18; may be repeated")
    parser.add_argument(
        "--library", choices=("torchvision", "timm"), default="", help="one (verified, load, convert)"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20000], help="operators (passes)")
    parser.add_argument("--every", type=int, default=1, help="each of so many models (mxnet)")
    parser.add_argument("--gigabytes", type=float, default=0.5, help="weights (memory)")
    parser.add_argument("--store", action="store_true", help="keep the ratios beside earlier commits'")
    options = parser.parse_args()
    models = options.model or ["resnet18"]
    for subject in options.subjects or ["export", "passes"]:
        if subject not in SUBJECTS:
            parser.error(f"expected a subject among {', '.join(SUBJECTS)}, got `{subject}`")
        with tempfile.TemporaryDirectory() as folder:
            try:
                match subject:
                    case "export":
                        exporting.run(models, options.repeat, Path(folder))
                    case "verified":
                        verified.run(options.repeat, Path(folder), options.library)
                    case "load":
                        verified.run_load(options.repeat, options.library)
                    case "convert":
                        converting.run(options.repeat, Path(folder), options.library)
                    case "cells":
                        cells.run(options.repeat, Path(folder))
                    case "passes":
                        scaling.run(options.sizes, options.repeat)
                    case "memory":
                        memory.run(options.gigabytes, Path(folder))
                    case "runtime":
                        runtime.run(models, options.repeat, Path(folder))
                    case "functions":
                        functions.run(options.repeat, Path(folder))
                    case "eager":
                        eager.run(options.repeat, Path(folder))
                    case "depth":
                        depth.run(options.repeat)
                    case "mindspore":
                        handwritten.run(options.repeat, Path(folder))
                    case "mxnet":
                        exporting_mxnet.run(options.every, Path(folder))
                    case "start":
                        starting.run(options.repeat, Path(folder))
            except Missing as missing:
                print(f"{subject}: {missing}")
    if options.store and RATIOS:
        history.store(RATIOS)


if __name__ == "__main__":
    main()
