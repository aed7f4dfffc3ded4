"""The frontends there are, a row each: how a model of theirs is told, and the package that reads it.

A package has the functions ``read(model, inputs, options)`` and ``read_tree(model, options)``, both to a
Graph; it is imported when a model is read.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.outside.file_kinds import kind_of

if TYPE_CHECKING:
    from ..ir import Graph


@dataclass(frozen=True, slots=True)
class Frontend:
    """One framework's models.

    Attributes:
        framework: its name in graphs, options and reports.
        title: how it writes its own name.
        package: the package beside this file that reads them.
        files: how the name of a file ends that is read as data -> how such a file is called in hints.
        kinds: kinds of files (`ir.outside.file_kinds`) that are read as data whatever their names.
        classes: (class, package) of live models; told by name, so that no framework is imported for it.
        nested_inputs: whether inputs may be tuples, lists and dicts.
        has_modules: whether its models are made of modules, and not one list of operators.
        has_lowerings: whether its operators become others; ONNX's are the graph's own.
    """

    framework: str
    title: str
    package: str
    files: dict[str, str]
    kinds: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    nested_inputs: bool = False
    has_modules: bool = True
    has_lowerings: bool = True

    def load(self) -> Any:
        """Import the package."""
        return importlib.import_module(f".{self.package}", __package__)

    def load_values(self) -> Any:
        """Import what gives a live model the values of a file: ``with_values(model, given, own=...)``."""
        return importlib.import_module(f".{self.package}.given_values", __package__)

    def load_table(self) -> Any:
        """Import its lowerings alone: a `LoweringTable`."""
        return importlib.import_module(f".{self.package}.operators", __package__).TABLE


FRONTENDS = (
    Frontend(
        "torch",
        "PyTorch",
        "torch_module",
        files={".pt2": "x.pt2"},
        kinds=("torchscript",),
        classes=(("Module", "torch.nn"), ("ExportedProgram", "torch.export")),
        nested_inputs=True,
    ),
    Frontend(
        "mindspore",
        "MindSpore",
        "mindspore_cell",
        files={".mindir": "x.mindir"},
        classes=(("Cell", "mindspore.nn"),),
        nested_inputs=True,
    ),
    Frontend("mxnet", "MXNet", "mxnet_symbol", files={".json": "x-symbol.json"}, has_modules=False),
    Frontend(
        "onnx",
        "ONNX",
        "onnx_model",
        files={".onnx": "x.onnx"},
        classes=(("ModelProto", "onnx"),),
        has_modules=False,
        has_lowerings=False,
    ),
)


def is_installed(framework: str) -> bool:
    """Whether a framework can be imported, without importing it."""
    try:
        return framework in sys.modules or importlib.util.find_spec(framework) is not None
    except (ImportError, ValueError):
        return False


def frontend(framework: str) -> Frontend:
    """Return the frontend of a framework."""
    return next(row for row in FRONTENDS if row.framework == framework)


def note_framework(graph: Graph, framework: str) -> None:
    """State in a graph which framework it came from."""
    row = frontend(framework)
    graph.origin.framework, graph.origin.title = row.framework, row.title
    graph.origin.has_modules = row.has_modules


def frontend_of_model(model: object) -> Frontend | None:
    """Return the frontend of a live model; None for an object that is none."""
    for cls in type(model).__mro__:
        home = cls.__module__ or ""
        for row in FRONTENDS:
            if any(cls.__name__ == name and home.startswith(package) for name, package in row.classes):
                return row
    return None


def frontend_of_file(path: str) -> Frontend | None:
    """Return the frontend that reads a file as data; None for a file that no frontend reads."""
    for row in FRONTENDS:
        if any(path.endswith(suffix) for suffix in row.files):
            return row
    kind = kind_of(Path(path))
    return next((row for row in FRONTENDS if kind in row.kinds), None)


def file_names() -> list[str]:
    """Return what the files that are read as data are called in hints."""
    return sorted((name for row in FRONTENDS for name in row.files.values()), reverse=True)
