"""The runtimes, a row each: whose models or outputs one runs, and the file that runs them.

A file has the functions that its row states: ``model_runner(graph)`` for live models, ``file_runner(graph)``
for a model that is a file which its runtime may run (`Origin.trusted`),
``output_runner(path, threads, optimised=...)`` for what a target wrote, ``constructed(folder)`` for the tree
of the net that a folder of source draws anew, ``written_net(folder)`` for the names of its parameters and
inputs, and ``exact_runner(graph)`` for a model in float64. It is imported when something of its framework is
run. The file in ``streaming`` has ``output_in_pieces``, see `streaming.targets`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.renames import target_of

if TYPE_CHECKING:
    from ...ir import Graph
    from .emitted_folder import SourceRunner, WrittenNet
    from .runs import Runner


@dataclass(frozen=True, slots=True)
class Runtime:
    """The runtime of one framework's models, or of one target's output.

    Attributes:
        framework: framework of its live models, as in a graph's origin; empty if it runs none.
        module: the file beside this one.
        model: name for such a model in hints, a class of its framework; empty if it runs none.
        output: name for an output in hints; empty if it runs none.
        suffix: suffix of an output that is one file.
        entry: the file that an output folder has; its ``renames.json`` says for which framework it is.
        output_module: the file beside this one that runs its outputs; empty for `module`.
        pieces: the file in ``streaming`` that runs its outputs in pieces.
        has_bfloat16: whether it computes in bfloat16 on the CPU.
        trains: whether it makes training steps too, of models and of outputs.
        is_exact: whether it can run a model in float64.
    """

    framework: str
    module: str
    model: str = ""
    output: str = ""
    suffix: str = ""
    entry: str = ""
    output_module: str = ""
    pieces: str = ""
    has_bfloat16: bool = False
    trains: bool = False
    is_exact: bool = False

    def load(self) -> Any:
        """Import the file."""
        return import_module(f".{self.module}", __package__)

    def load_for_outputs(self) -> Any:
        """Import the file that runs outputs."""
        return import_module(f".{self.output_module or self.module}", __package__)

    def has_written(self, path: Path) -> bool:
        """Whether this runtime runs an output at a path."""
        if self.entry and path.is_dir():
            written_for = target_of(renames_of_output(path))
            entry = path / self.entry
            return entry.exists() and self.framework == (written_for or _imported_by(entry))
        return bool(self.suffix) and path.suffix == self.suffix and path.is_file()


def _imported_by(entry: Path) -> str:
    """Return the framework whose name stands first in the imports of a file without a map beside it."""
    text = entry.read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^(?:from|import) (torch|mindspore)\b", text, re.MULTILINE)
    return found[1] if found else "mindspore"


RUNTIMES = (
    Runtime(
        "torch",
        "torch_runner",
        model="a PyTorch module",
        output="an emitted folder with model.py",
        entry="model.py",
        output_module="torch_folder",
        pieces="torch_folder_pieces",
        has_bfloat16=True,
        trains=True,
        is_exact=True,
    ),
    Runtime(
        "mindspore",
        "mindspore_runner",
        model="a MindSpore Cell",
        output="an emitted folder with model.py",
        entry="model.py",
        pieces="mindspore_pieces",
        trains=True,
    ),
    Runtime("", "onnx_runner", output="a .onnx file", suffix=".onnx", pieces="onnx_pieces"),
)


FILE_RUNNERS = {"mindspore": "mindir_runner", "onnx": "onnx_file_runner"}
"""Framework -> the file beside this one that runs its models which are files."""


def runtime_of_framework(framework: str) -> Runtime | None:
    """Return the runtime of a framework's live models; None where there is none."""
    return next((row for row in RUNTIMES if row.model and row.framework == framework), None)


def runtime_of_output(path: Path) -> Runtime | None:
    """Return the runtime that runs what a target wrote to a path; None if there is none."""
    return next((row for row in RUNTIMES if row.has_written(path)), None)


def is_source_folder(path: Path) -> bool:
    """Whether a path is a folder of source that a runtime runs."""
    found = runtime_of_output(path)
    return found is not None and bool(found.entry)


def source_runner(folder: Path) -> SourceRunner:
    """Return a runner of a folder of source."""
    found = runtime_of_output(folder)
    assert found is not None
    runner: SourceRunner = found.load_for_outputs().output_runner(folder)
    return runner


def written_net(folder: Path) -> WrittenNet:
    """Return the parameters and inputs of the net that a folder of source builds."""
    found = runtime_of_output(folder)
    assert found is not None
    net: WrittenNet = found.load_for_outputs().written_net(folder)
    return net


def renames_of_output(path: Path) -> Path:
    """Return where the map of what a target wrote to a path lies: beside a file, in a folder."""
    return path / "renames.json" if path.is_dir() else path.with_suffix(".renames.json")


def file_runner(graph: Graph) -> Runner:
    """Return a runner of a graph's model that is a file."""
    module = import_module(f".{FILE_RUNNERS[graph.origin.framework]}", __package__)
    found: Runner = module.file_runner(graph)
    return found
