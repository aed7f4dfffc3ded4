"""Frontends: each reads one framework's models and lowers them faithfully into the IR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..ir import Graph, ModelError, UsageError, missing_file
from ..ir.outside.file_kinds import TITLES, classes_in, kind_of
from .inputs import Inputs, InputSpec, arrays_of, as_arrays, bounds_of, holds_values, is_nested
from .options import LoadOptions
from .python_file import load_object, raised_below
from .registry import Frontend, file_names, frontend, frontend_of_file, frontend_of_model

__all__ = [
    "InputSpec",
    "Inputs",
    "LoadOptions",
    "arrays_of",
    "as_arrays",
    "read",
    "read_tree",
    "refuse_folder",
    "resolve",
]

_REFERENCE = re.compile(r"(?P<where>.+):(?P<name>[^\W\d][\w.]*)\Z")


def resolve(model: object, options: LoadOptions) -> tuple[str, object]:
    """Return (framework, live model or path) of whatever a caller may name as a model.

    Naming ``file.py:Name`` or ``package.module:Name`` imports that file and runs it; the other forms execute
    nothing.

    Raises:
        ModelError: when there is no such file, or it is not a model.
        UsageError: when `model` is nothing that can be named.
    """
    if isinstance(model, Path):
        model = str(model)
    if not isinstance(model, str):
        row = frontend_of_model(model)
        if row is None:
            raise UsageError(
                "E001",
                f"expected a torch module, a MindSpore Cell or a path, got `{type(model).__name__}`",
                hint=_hint(),
            )
        return row.framework, _with_values(row, model, options, own=False)
    row = None if model.endswith(_INDEX) else frontend_of_file(model)
    if row is not None:
        if options.params is not None and row.framework != "mxnet":
            raise UsageError("E001", f"expected no further parameters, as `{model}` holds its own")
        return row.framework, _existing(model)
    if _REFERENCE.match(model):
        with _without_values(options):
            found = load_object(model, options.arguments)
        row = frontend_of_model(found)
        if row is None:
            raise ModelError(
                "E102",
                f"expected a torch module or a MindSpore Cell, got `{type(found).__name__}`",
                place=model,
            )
        return row.framework, _with_values(row, found, options, own=True)
    if model.endswith(".py"):
        name = "build" if _emitted_net(Path(model).parent) else "Net"
        raise UsageError(
            "E001", f"expected a name in `{model}`", hint=f"name the class or factory: {model}:{name}"
        )
    if Path(model).is_file():
        _refuse_file(model)
    if Path(model).is_dir():
        refuse_folder(model)
    if not Path(model).exists():
        near = missing_file(model).hint
        raise UsageError(
            "E001",
            f"expected a model, got `{model}`, which is no file or folder",
            hint=near if near.startswith("did you mean") else _hint(),
        )
    raise UsageError("E001", f"expected a model, got `{model}`", hint=_hint())


_RENAMED = {"exported": ".pt2", "onnx": ".onnx", "mindir": ".mindir"}
"""Kind of a file that is a model -> how its name has to end."""

_WEIGHTS = {"torch", "safetensors", "params", "ckpt"}
"""Kinds of files of weights."""

_INDEX = ".index.json"
"""Suffix of the name of an index of shards."""


def _refuse_file(model: str) -> None:
    """Say what a file is that is named as a model, and what to name in its place.

    Raises:
        UsageError: for a file of a kind that is known.
    """
    kind = kind_of(Path(model))
    classes = classes_in(Path(model)) if kind == "torch" else []
    if kind in _RENAMED:
        raise UsageError(
            "E001",
            f"expected a model, got `{model}`, which is {TITLES[kind]} under another name",
            hint=f"let its name end in {_RENAMED[kind]}",
        )
    if kind == "pickle" or classes:
        held = f"a pickled object of `{classes[0]}`" if classes else "a pickled object"
        raise UsageError(
            "E001",
            f"`{model}` holds {held}, and unpickling an untrusted file can run any code",
            hint="name the class as file.py:Net, and give a file of its state_dict() with --params; or name "
            "a file.py:function that returns torch.load(FILE, weights_only=False), of a FILE that you trust",
        )
    if kind in _WEIGHTS or model.endswith(_INDEX):
        raise _without_net(model)
    if kind in TITLES:
        raise UsageError("E001", f"expected a model, got `{model}`, which is {TITLES[kind]}", hint=_hint())


def refuse_folder(model: str) -> None:
    """Say what is in a folder that is named as a model, and what to name in its place.

    Raises:
        UsageError: for one with files of models, or else of weights (E001).
    """
    names = sorted(path.name for path in Path(model).iterdir() if path.is_file())
    models = [name for name in names if name.endswith((*_RENAMED.values(), "-symbol.json"))]
    if models:
        raise UsageError(
            "E001",
            f"expected a model, got the folder `{model}`",
            hint=f"name the file: {Path(model) / models[0]}",
        )
    if any(name.endswith(_INDEX) or kind_of(Path(model) / name) in _WEIGHTS for name in names):
        raise _without_net(model)


def _without_net(model: str) -> UsageError:
    net = _emitted_net(Path(model) if Path(model).is_dir() else Path(model).parent)
    hint = f"name the class as file.py:Net, and give the weights with --params {model}"
    return UsageError(
        "E001",
        f"expected a model, got `{model}`, which holds weights without a net",
        hint=f"name the function that builds the net: {net}:build" if net else hint,
    )


def _emitted_net(folder: Path) -> Path | None:
    """Return the file with the net of a folder that we wrote; None for another folder."""
    net = folder / "model.py"
    return net if net.is_file() and (folder / "renames.json").is_file() else None


def _with_values(row: Frontend, model: object, options: LoadOptions, *, own: bool) -> object:
    """Return a live model with the values of the file that the options name; itself where they name none."""
    if options.params is None or options.values is None:
        return model
    given = options.values(options.params, options.noted)
    return row.load_values().with_values(model, given, own=own, options=options)


@contextmanager
def _without_values(options: LoadOptions) -> Iterator[None]:
    """Open a with block that makes a model, with parameters without values if the options say so."""
    if not options.meta:
        yield
        return
    if options.params is None:
        raise UsageError(
            "E001",
            "expected --params with --meta, which makes a model without values",
            hint="--params FILE, or a folder with the checkpoint's shards",
        )
    with frontend("torch").load_values().without_values():
        yield


def _hint() -> str:
    return f"name a model as file.py:Name or package.module:Name, or give a file: {', '.join(file_names())}"


def read(model: object, inputs: Inputs, options: LoadOptions) -> Graph:
    """Lower a model into the IR with everything it computes.

    Args:
        model: a live module or Cell, or a name as `resolve` takes.
        inputs: example inputs: arrays, tensors or specs.
        options: how to load it.

    Raises:
        ModelError: when the model cannot be read or captured with these inputs.
        UnsupportedError: listing all operators without a lowering.
    """
    framework, found = resolve(model, options)
    arrays = as_arrays(inputs)
    row = frontend(framework)
    if options.constants and framework != "onnx":
        raise UsageError(
            "E001",
            f"expected an ONNX model with --constant, got one of {row.title}",
            hint="leave the input out of the model's own code, as a default or an attribute",
        )
    if not row.nested_inputs and any(is_nested(value) for _, value in arrays):
        raise UsageError(
            "E001",
            f"expected arrays as inputs of a model of {framework}, got a tuple, list or dict of them",
            hint="only models of PyTorch and MindSpore take nested inputs",
        )
    if not row.nested_inputs:
        arrays = [(name, None if value is None else np.asarray(value)) for name, value in arrays]
    graph = row.load().read(found, arrays, replace(options, own=options.own or found is not model))
    graph.origin.notes += options.noted
    graph.origin.ranges = _ranges(graph, inputs)
    graph.origin.given = bool(graph.origin.inputs) and (inputs is None or holds_values(inputs))
    return _name(graph, model)


def read_tree(model: object, options: LoadOptions) -> Graph:
    """Return the static part of a model: modules, registrations and parameters, without a run."""
    framework, found = resolve(model, options)
    graph = frontend(framework).load().read_tree(found, options)
    graph.origin.notes += options.noted
    return _name(graph, model)


def _ranges(graph: Graph, inputs: Inputs) -> dict[str, tuple[int, int]]:
    """Return the bounds that the user gave, by the graph's own input names."""
    names = [n.name for n in graph.input_nodes()]
    given = list(enumerate(bounds_of(inputs)))
    given = [
        (at, (name if name in names else name.replace(".", "_"), bounds)) for at, (name, bounds) in given
    ]
    return {
        name or names[at]: bounds
        for at, (name, bounds) in given
        if bounds is not None and (name in names or (not name and at < len(names)))
    }


def _name(graph: Graph, model: object) -> Graph:
    """Let reports call the model what its user called it."""
    if isinstance(model, (str, Path)):
        graph.origin.reference = str(model)
        raised = raised_below(str(model).rpartition(":")[0])
        if raised is not None:
            graph.origin.notes.append(
                f"the file raises at {raised.place}; this is the model up to that point: {raised.message}"
            )
    return graph


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise missing_file(path)
    return Path(path)
