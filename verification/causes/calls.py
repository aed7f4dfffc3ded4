"""Reads the arguments of a recorded call by name, and repeats the call with others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...frontends.constructions import arguments_of
from .hosts import Host
from .tape import Record, Ref, leaves

EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call.

    Attributes:
        values: name -> value, defaults filled in.
        stated: the names of those that are written in the call.
        changed: makes (args, kwargs, function) of the call with some arguments changed.
        layer: whether they are those of a layer's constructor.
    """

    values: dict[str, Any]
    stated: frozenset[str]
    changed: Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any], Any]]
    layer: bool = False


def given_to(record: Record, host: Host) -> Given | None:
    """The arguments of a call by name; None where nobody knows their names."""
    if record.kind == "layer" or _is_primitive(record.function):
        return _of_constructor(record, host)
    if record.kind not in ("call", "method"):
        return None
    known = _signatures(record, host)
    for names in known:
        bound = _bind(names, record, several=len(known) > 1)
        if bound is not None:
            values, stated = bound
            return Given(values, stated, _changing(record, [name for name, _ in names]))
    return None


def _of_constructor(record: Record, host: Host) -> Given | None:
    known = arguments_of(record.function)
    if known is None and _is_primitive(record.function):
        known = {
            k: v for k, v in dict(getattr(record.function, "init_attrs", {}) or {}).items() if k != "name"
        }
    if known is None:
        return None
    values = dict(known)

    def changed(wanted: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        return record.args, record.kwargs, Remade(host, record.function, {**values, **wanted})

    return Given(values, frozenset(values), changed, layer=True)


class Remade:
    """A layer with other arguments, which its first call constructs.

    A search lists hundreds of changes of a layer and tries the likely ones first: most are never called.

    Args:
        host: the framework.
        layer: the layer as it is.
        arguments: what its constructor is given.
    """

    def __init__(self, host: Host, layer: Any, arguments: dict[str, Any]) -> None:
        self.__name__ = type(layer).__name__
        self._make = lambda: host.remade(layer, arguments)
        self._made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer.

        Raises:
            Exception: of any class, as the library's constructor may refuse any value.
        """
        if self._made is None:
            self._made = self._make()
        if self._made is None:
            raise ValueError("the weights do not fit")
        return self._made(*args, **kwargs)


def _is_primitive(function: Any) -> bool:
    return any(cls.__name__ == "Primitive" for cls in type(function).__mro__)


Names = list[tuple[str, Any]]
"""Arguments with their defaults, in order; `EMPTY` for none."""


def _signatures(record: Record, host: Host) -> list[Names]:
    """The argument lists that a function may have."""
    if record.kind == "method":
        return _torch_schemas(record) if host.name == "torch" else _mindspore_methods(record.name)
    try:
        parameters = inspect.signature(record.function).parameters.values()
    except (TypeError, ValueError):
        return _torch_schemas(record) if host.name == "torch" else _mindspore_methods(record.name)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return _torch_schemas(record) if host.name == "torch" else _mindspore_methods(record.name)
    return [[(p.name, p.default) for p in parameters]]


def _torch_schemas(record: Record) -> list[Names]:
    """The argument lists of an operator of torch that take as many arguments without keyword."""
    import torch

    library: Any = torch._C
    try:
        schemas = library._jit_get_schemas_for_operator(f"aten::{record.name}")
    except RuntimeError:
        return []
    found: list[Names] = []
    for schema in schemas:
        placed = sum(not a.kwarg_only for a in schema.arguments)
        if placed < len(record.args) or any(a.is_out for a in schema.arguments):
            continue
        found.append(
            [(a.name, a.default_value if a.has_default_value() else EMPTY) for a in schema.arguments]
        )
    return found


def _mindspore_methods(name: str) -> list[Names]:
    found: list[Names] = []
    for room in rooms("mindspore").values():
        function: Any = getattr(room, name, None)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            continue
        if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            found.append([(p.name, p.default) for p in parameters])
    return found


def rooms(framework: str) -> dict[str, Any]:
    """A framework's modules of functions, by what people write for them."""
    if framework == "torch":
        import torch

        return {"torch": torch, "F": torch.nn.functional}
    from mindspore import mint, ops

    library: Any = mint
    return {"ops": ops, "mint.nn.functional": library.nn.functional, "mint": mint}


def _bind(names: Names, record: Record, *, several: bool) -> tuple[dict[str, Any], frozenset[str]] | None:
    """(name -> value, names that are written) of a call; None where it does not fit.

    Args:
        names: an argument list.
        record: the call.
        several: whether there are others, so that types decide.
    """
    order = [name for name, _ in names]
    if len(record.args) > len(order) or any(name not in order for name in record.kwargs):
        return None
    values = dict(names)
    given = dict(zip(order, record.args, strict=False))
    if set(given) & set(record.kwargs):
        return None
    given |= record.kwargs
    values |= given
    if any(value is EMPTY for value in values.values()):
        return None
    for name, default in names if several else ():  # of several argument lists, the one whose types fit
        value = values[name]
        if name == "dtype" and isinstance(value, (int, float, str, list, tuple)):
            return None
        tensor = isinstance(value, Ref)
        if tensor and isinstance(default, (bool, int, float, str)):
            return None
        if isinstance(default, bool) and not isinstance(value, (bool, type(None))):
            return None
    return values, frozenset(given)


def _changing(
    record: Record, order: list[str]
) -> Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any], Any]]:
    def changed(wanted: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        args, kwargs = list(record.args), dict(record.kwargs)
        for name, value in wanted.items():
            at = order.index(name)
            if at < len(args):
                args[at] = value
            else:
                kwargs[name] = value
        return tuple(args), kwargs, record.function

    return changed


def has_tensor(value: Any, host: Host) -> bool:
    """Whether an argument holds a tensor."""
    return any(isinstance(leaf, Ref) or host.is_tensor(leaf) for leaf in leaves(value))
