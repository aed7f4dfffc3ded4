"""Example arguments of a model: nested as `forward` takes them, flat and by name as a graph does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import ModelError
from ...inputs import with_nests
from ...options import LoadOptions

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.nn import Module

Arrange = Callable[[Sequence[Any]], tuple[list[Any], dict[str, Any]]]
"""(arguments, keywords) of a model from its tensors in order."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a model.

    Attributes:
        leaves: every tensor, and every None, number, truth value or text in the place of one, in order: by
            the argument's name, or where that is nested by the name and the way in it (``state_hidden``).
        structure: argument -> names of its leaves and how they nest (a pytree's spec).
        positional: the arguments that go by position.
        variadic: name of ``*args`` in `forward`, whose arguments are called ``*0`` and so on; or empty.
        further: the arguments that go to ``**kwargs`` of `forward`.
    """

    leaves: dict[str, Any]
    structure: dict[str, tuple[list[str], Any]]
    positional: tuple[str, ...]
    variadic: str = ""
    further: tuple[str, ...] = ()

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The leaves that are tensors, in order."""
        return {name: leaf for name, leaf in self.leaves.items() if hasattr(leaf, "shape")}

    @property
    def constants(self) -> dict[str, Any]:
        """The leaves that are numbers, truth values or texts, in order."""
        return {n: v for n, v in self.leaves.items() if v is not None and n not in self.tensors}

    def input_name(self, leaf: str) -> str:
        """Return the name that a leaf has as an input of the graph."""
        return leaf.replace("*", f"{self.variadic}_", 1)

    def repeated(self, axes: Mapping[str, Sequence[int]]) -> Arguments:
        """Return the same with these axes of size 1 doubled: torch.export makes a constant of a size of 1."""
        leaves = dict(self.leaves)
        for name, chosen in axes.items():
            for axis in chosen:
                leaf = leaves[name]
                if leaf.shape[axis] == 1:
                    leaves[name] = leaf.repeat_interleave(2, dim=axis)
        return replace(self, leaves=leaves)

    def built(self, make: Callable[[str, Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (arguments, keywords) with what is made of the name and value of every leaf."""
        args = tuple(self._argument(name, make) for name in self.positional)
        return args, {n: self._argument(n, make) for n in self.structure if n not in self.positional}

    def by_parameter(self, make: Callable[[str, Any], Any]) -> dict[str, Any]:
        """The same by the names of `forward`'s parameters, with lists for objects: torch's dynamic shapes."""

        def argument(name: str) -> Any:
            names, spec = self.structure[name]
            return _without_objects(spec, iter([make(n, self.leaves[n]) for n in names]))

        found = {n: argument(n) for n in self.structure if not n.startswith("*")}
        if self.variadic:
            found[self.variadic] = tuple(argument(n) for n in self.positional if n.startswith("*"))
        return found

    def arrange(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return (arguments, keywords) with these tensors instead, in order."""
        from .tensors import as_complex

        given = dict(self.leaves)
        for (name, leaf), tensor in zip(self.tensors.items(), tensors, strict=True):
            given[name] = as_complex(tensor) if leaf.is_complex() else tensor
        args, keywords = self.built(lambda name, _: given[name])
        return list(args), keywords

    def _argument(self, name: str, make: Callable[[str, Any], Any]) -> Any:
        from torch.utils import _pytree as pytree

        names, spec = self.structure[name]
        return pytree.tree_unflatten([make(n, self.leaves[n]) for n in names], spec)


def _without_objects(spec: Any, leaves: Iterator[Any]) -> Any:
    """The nest of a pytree's specification, with a list in place of whatever is no container of Python's."""
    from torch.utils import _pytree as pytree

    from .containers import children_of

    if spec.is_leaf():
        return next(leaves)
    parts = [_without_objects(child, leaves) for child in children_of(spec)]
    if spec.type not in pytree.BUILTIN_TYPES:
        return parts
    return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(parts, spec.context)


def bind(module: Module, inputs: Sequence[tuple[str, Any]]) -> Arguments:
    """Return the inputs as `forward` names its parameters.

    Args:
        module: the model.
        inputs: (name or "", array, None, number, truth value, text, or a nest of these) of every argument.

    Raises:
        ModelError: E103 when they do not fit the signature.
    """
    parameters = inspect.signature(module.forward).parameters
    inputs = with_nests(inputs, {n: p.annotation for n, p in parameters.items()}, list)
    positional = [_tensors(value) for name, value in inputs if not name]
    named = {name: _tensors(value) for name, value in inputs if name}
    try:
        bound = inspect.signature(module.forward).bind(*positional, **named)
    except TypeError as error:
        wanted = [
            n
            for n, p in parameters.items()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]
        raise ModelError(
            "E103",
            f"expected the inputs {', '.join(f'`{n}`' for n in wanted) or '(none)'}, "
            f"got {len(positional) + len(named)}: {error}",
            place=type(module).__name__,
            hint="give one --input [NAME=]SHAPE[:DTYPE] for each; a list or dict goes by its parts: "
            "--input feats.0=SHAPE --input feats.1=SHAPE, --input batch.image=SHAPE",
        ) from error
    values: dict[str, Any] = {}
    first: list[str] = []
    variadic, ended = "", False
    further: tuple[str, ...] = ()
    for name, parameter in parameters.items():  # the first argument left out ends what can go by position
        value = bound.arguments.get(name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = name if value else ""
            starred = {f"*{i}": v for i, v in enumerate(value or ())}
            values.update(starred)
            first += starred
        elif parameter.kind is parameter.VAR_KEYWORD:
            values.update(value or {})
            further = tuple(value or ())
        elif name in bound.arguments:
            values[name] = value
            if not ended and parameter.kind is not parameter.KEYWORD_ONLY:
                first.append(name)
        else:
            ended = True
    return replace(_flat(values, tuple(first)), variadic=variadic, further=further)


@contextmanager
def spelled_out(module: Module, further: Sequence[str]) -> Iterator[None]:
    """Give `forward` parameters in place of ``**kwargs`` while the block runs.

    torch.export takes the shapes of those arguments by two names at once.
    """
    if not further:
        yield
        return
    forward = module.forward
    signature = inspect.signature(forward)
    kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in further]

    def named(*args: Any, **keywords: Any) -> Any:
        return forward(*args, **keywords)

    named.__signature__ = signature.replace(parameters=[*kept, *added])
    module.forward = named
    try:
        yield
    finally:
        del module.forward


def arrange_of(program: ExportedProgram) -> Arrange:
    """Return the function that arranges a saved program's tensors as its arguments."""
    from torch.utils import _pytree as pytree

    from .tensors import as_complex

    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]

    def arrange(tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        given = iter(tensors)
        leaves: list[Any] = []
        for given_as in specs:
            fake: Any = nodes[given_as.arg.name].meta.get("val") if given_as.arg.name in nodes else None
            if not hasattr(fake, "shape"):
                leaves.append(getattr(given_as.arg, "value", None))
            else:
                leaves.append(as_complex(next(given)) if fake.dtype.is_complex else next(given))
        spec = program.call_spec.in_spec
        assert spec is not None, "torch.export always states it"
        args, keywords = pytree.tree_unflatten(leaves, spec)
        return list(args), dict(keywords)

    return arrange


def _flat(values: Mapping[str, Any], positional: tuple[str, ...]) -> Arguments:
    from torch.utils import _pytree as pytree

    from .output_names import part

    leaves: dict[str, Any] = {}
    structure: dict[str, tuple[list[str], Any]] = {}
    for argument, value in values.items():
        found, spec = pytree.tree_flatten_with_path(value)
        names = ["_".join([argument, *map(part, path)]) for path, _ in found]
        structure[argument] = names, spec
        leaves.update(zip(names, (leaf for _, leaf in found), strict=True))
    return Arguments(leaves, structure, positional)


def _tensors(value: Any) -> Any:
    """Return the same nest with tensors for arrays."""
    from torch.utils import _pytree as pytree

    from .containers import open_containers
    from .tensors import tensor_of

    open_containers(value)
    return pytree.tree_map(lambda leaf: tensor_of(leaf) if isinstance(leaf, np.ndarray) else leaf, value)


def dynamic_axes(arguments: Arguments, options: LoadOptions) -> dict[str, tuple[int, ...]]:
    """Return leaf -> the axes that are to be symbolic.

    Raises:
        ModelError: E103 for inputs that there are not, and axes that they have not.
    """
    tensors = arguments.tensors
    leaf_of = {arguments.input_name(n): n for n in tensors}
    unknown = sorted(set(options.dynamic) - set(leaf_of))
    if unknown:
        raise ModelError(
            "E103",
            f"expected dynamic axes of inputs among {', '.join(leaf_of)}, got `{unknown[0]}`",
            place="--dynamic",
        )
    if not options.dynamic_batch and not options.dynamic:
        return {}
    if options.dynamic:
        for name, chosen in options.dynamic.items():
            rank = tensors[leaf_of[name]].dim()
            if any(not 0 <= a < rank for a in chosen):
                raise ModelError(
                    "E103",
                    f"expected axes of `{name}` below its rank {rank}, got {list(chosen)}",
                    place="--dynamic",
                )
        return {leaf_of[n]: tuple(a) for n, a in options.dynamic.items() if a}
    ranked = [t for t in tensors.values() if t.dim()]
    return {n: (0,) for n, t in tensors.items() if t.dim() and t.shape[0] == ranked[0].shape[0]}
