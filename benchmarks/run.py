"""Speed and memory of the main job, as ratios in one process side by side with what a user would run instead.

    python benchmarks/run.py [--repeat N] [--model resnet18|resnet50]

Columns: seconds at the median of N runs, and the ratio to a bare ``torch.export.export`` of the same model in
the same process, which any exporter built on it must pay for.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))


def median_seconds(job: Callable[[], object], repeat: int) -> float:
    """Median wall time of `job`, after one run that is not counted."""
    job()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def examples_resnet() -> ModuleType:
    """The repository's own ResNet."""
    path = Path(__file__).resolve().parent.parent / "examples" / "resnet.py"
    spec = importlib.util.spec_from_file_location("regraft_benchmark_resnet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def exporters(model: object, example: object, folder: Path) -> dict[str, Callable[[], object]]:
    """Name -> job, the bare capture first."""
    import torch

    import regraft

    def ours(to: str, *, verified: bool) -> Callable[[], object]:
        def job() -> object:
            graph = regraft.load(model, (example,))
            result = regraft.rewrite(graph)
            out = folder / ("regraft.onnx" if to == "onnx" else "regraft")
            regraft.save(result.graph, out, to=to, force=True)
            return regraft.verify(graph, out) if verified else None

        return job

    jobs = {
        "torch.export (bare)": lambda: torch.export.export(model, (example,), strict=False),
        "regraft -> onnx, not verified": ours("onnx", verified=False),
        "regraft -> mindspore, not verified": ours("mindspore", verified=False),
        "regraft -> onnx, verified": ours("onnx", verified=True),
        "torch.onnx.export(dynamo=False)": lambda: torch.onnx.export(
            model, (example,), folder / "script.onnx", dynamo=False
        ),
    }
    if importlib.util.find_spec("onnxscript"):
        jobs["torch.onnx.export(dynamo=True)"] = lambda: torch.onnx.export(
            model, (example,), folder / "dynamo.onnx", dynamo=True, verbose=False
        )
    return jobs


def passes_per_operator(operators: int) -> float:
    """Microseconds an operator of the default pipeline on a chain of convolutions and activations."""
    import numpy as np

    from regraft.api import rewrite
    from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType

    graph = Graph()
    root = graph.modules.add("Chain")
    builder = Builder(graph, call=graph.modules.add_call(root))
    weight = graph.add_parameter(Parameter("w", "w", TensorData.of(np.ones((4, 4, 1, 1), np.float32))))
    graph.modules.module(root).parameters["w"] = weight.node
    x = graph.add_input("x", TensorType("float32", ("N", 4, 8, 8)))
    for at in range(operators):
        x = builder.op("Conv", x, weight) if at % 2 else builder.op("Relu", x)
    graph.outputs.append(("y", x))
    start = time.perf_counter()
    rewrite(graph)
    return (time.perf_counter() - start) / operators * 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", default="resnet18", choices=["resnet18", "resnet50"])
    options = parser.parse_args()

    import torch

    model = getattr(examples_resnet(), options.model)().eval()
    example = torch.randn(2, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder:
        base = None
        print(f"{options.model}, 2x3x224x224, median of {options.repeat}")
        for name, job in exporters(model, example, Path(folder)).items():
            seconds = median_seconds(job, options.repeat)
            base = base or seconds
            print(f"  {name:38} {seconds:8.2f} s   {seconds / base:6.2f} x")
    print("default pipeline on a synthetic graph")
    for operators in (500, 2000, 8000):
        print(f"  {operators:6} operators {passes_per_operator(operators):8.1f} us an operator")


if __name__ == "__main__":
    main()
