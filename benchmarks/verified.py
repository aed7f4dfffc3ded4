"""From a model to an ONNX file that is proved equal, against torch's exporter, which proves nothing.

Whole processes, as a user runs them: imports, the model with fresh weights, the capture, the file, and for
regraft by default the verification. torch's exporter keeps the batch static unless told otherwise, regraft
keeps it symbolic; torch is measured both ways, and static is the yardstick.

    python benchmarks/verified.py MODEL (static | dynamic) OUT.onnx    # what torch's exporter is run by
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from measuring import RATIOS, in_turns, print_ratios
from models import Missing
from zoo import NAMES

_FILE = Path(__file__).resolve()
_IMAGE = "1x3x224x224"


def export(name: str, batch: str, out: str) -> None:
    """Write a model with torch's own exporter."""
    import torch
    import zoo

    dynamic = batch == "dynamic"
    example = torch.randn(2 if dynamic else 1, 3, 224, 224)  # a batch of 1 would be taken for a constant
    shapes = ({0: torch.export.Dim.DYNAMIC},) if dynamic else None
    model = getattr(zoo, name)()
    torch.onnx.export(model, (example,), out, dynamo=True, verbose=False, dynamic_shapes=shapes)


def _jobs(name: str, folder: Path) -> dict[str, Callable[[], object]]:
    def torch_exporter(batch: str) -> Callable[[], object]:
        return partial(_run, [sys.executable, str(_FILE), name, batch, str(folder / "torch.onnx")])

    ours = [sys.executable, "-m", "regraft", "rewrite", f"{_FILE.parent / 'zoo.py'}:{name}"]
    ours += ["--input", _IMAGE, "--to", "onnx", "-o", str(folder / "regraft.onnx"), "--force"]
    return {
        "torch.onnx.export(dynamo=True), static, not verified": torch_exporter("static"),
        "torch.onnx.export(dynamo=True), dynamic batch, not verified": torch_exporter("dynamic"),
        "regraft rewrite --to onnx, dynamic batch, verified": partial(_run, ours),
        "regraft rewrite --to onnx --no-verify, dynamic batch": partial(_run, [*ours, "--no-verify"]),
    }


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def models(library: str = "") -> list[str]:
    """Return the names of the zoo's models that can be made here; of one library, where one is given.

    Raises:
        Missing: when there are none.
    """
    wanted = {name: of for name, of in NAMES.items() if library in ("", of)}
    found = [name for name, of in wanted.items() if importlib.util.find_spec(of)]
    if not found:
        raise Missing("the models are torchvision's and timm's, which are not installed")
    return found


def print_medians(title: str, names: Sequence[str], ratios: dict[str, list[float]]) -> None:
    """Print the median of each job's ratios over models, and keep it."""
    libraries = " and ".join(sorted({NAMES[name] for name in names}, reverse=True))
    title = f"{title}: median of {len(names)} models of {libraries}"
    print(title)
    for job, found in ratios.items():
        RATIOS.setdefault(title, {})[job] = round(statistics.median(found), 3)
        print(f"  {job:60} {statistics.median(found):6.2f} x   ({min(found):.2f} to {max(found):.2f})")


def run(repeat: int, folder: Path, library: str = "") -> None:
    """Print a table a model, and the medians."""
    if not importlib.util.find_spec("onnxscript"):
        raise Missing("torch.onnx.export(dynamo=True) needs onnxscript, which is not installed")
    ratios: dict[str, list[float]] = {}
    names = models(library)
    for name in names:
        times = in_turns(_jobs(name, folder), repeat, warm=False)
        for job, ratio in print_ratios(f"{name} to ONNX", times, keep=False).items():
            ratios.setdefault(job, []).append(ratio)
    print_medians("a file of ONNX in a process of its own", names, ratios)


def run_load(repeat: int, library: str = "") -> None:
    """Print what reading a torch module takes, against the bare capture that is a part of it."""
    import torch
    import zoo

    import regraft

    ratios: dict[str, list[float]] = {}
    names = models(library)
    for name in names:
        model = getattr(zoo, name)()
        example = torch.randn(2, 3, 224, 224)
        shapes = ({0: torch.export.Dim.AUTO},)
        bare = partial(torch.export.export, model, (example,), strict=False)
        jobs: dict[str, Callable[[], object]] = {
            "torch.export (bare, dynamic batch)": partial(bare, dynamic_shapes=shapes),
            "torch.export (bare, static)": bare,
            "regraft.load, dynamic batch": partial(regraft.load, model, (example,)),
        }
        for job, ratio in print_ratios(f"load of {name}", in_turns(jobs, repeat), keep=False).items():
            ratios.setdefault(job, []).append(ratio)
    print_medians("load", names, ratios)


if __name__ == "__main__":
    export(*sys.argv[1:4])
