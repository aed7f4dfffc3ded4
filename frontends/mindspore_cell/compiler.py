"""MindSpore's compiler without what it repeats for each Cell and Parameter."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

_PARSERS = ("mindspore.graph._parse.parser", "mindspore._extends.parse.parser")
_EXECUTORS = ("mindspore.graph.api", "mindspore.common.api")
_GRADIENTS = ("mindspore.ops.function.grad.grad_func",)
"""Modules of the compiler, of MindSpore 2.10 and before; where one is not there, nothing is replaced."""
STOPS_GRADIENT = "regraft_stops_gradient"
"""Attribute of an Identity through which no gradient flows."""


@contextmanager
def quick_compiler() -> Iterator[None]:
    """Let the compiler read each function once, log nothing of its debugging, and collect no garbage before.

    It asks for the source of a construct, and for the lines of each part of it, once for each Cell that has
    it; the collection is for what earlier compiles of a training loop left.
    """
    sources: dict[int, tuple[Any, Any]] = {}

    def getsourcelines(found: Any) -> Any:
        code = getattr(found, "__code__", None)
        if code is None:
            return inspect.getsourcelines(found)
        if id(code) not in sources:
            sources[id(code)] = code, inspect.getsourcelines(found)  # with the code, whose id is taken then
        return sources[id(code)][1]

    def debug(*_: Any, **__: Any) -> None:
        pass

    stand_ins: list[tuple[Any, str, Any]] = []
    for module in _loaded(_PARSERS):
        stand_ins.append((module, "inspect", _like(inspect, getsourcelines=getsourcelines)))
        stand_ins.append((module, "logger", _like(module.logger, debug=debug)))
        stand_ins.append((module.Parser, "get_location", _once_a_node(module.Parser.get_location)))
    stand_ins += [(module, "gc", _like(gc, collect=lambda: 0)) for module in _loaded(_EXECUTORS)]
    with _replaced(stand_ins):
        yield


@contextmanager
def settled_parameters() -> Iterator[None]:
    """Let names and flags of Parameters be read without a wait for kernels, which have no part in them.

    They are read some twenty times for each Parameter, and each wait is a round through MindSpore's threads.
    """
    from mindspore import Parameter

    waiting: Any = vars(Parameter).get("param_info")
    if not isinstance(waiting, property) or waiting.fset is None:
        yield
        return

    def info(parameter: Any) -> Any:
        try:
            return parameter._param_info
        except AttributeError:  # this is another MindSpore
            return waiting.__get__(parameter)

    with _replaced([(Parameter, "param_info", property(info, waiting.fset, waiting.fdel))]):
        yield


@contextmanager
def kept_stop_gradients(cells: Sequence[Any]) -> Iterator[None]:
    """Compile `ops.stop_gradient`, and the primitive that a Cell holds, to an Identity of ours.

    That stays in a graph of evaluation.
    """
    from mindspore.ops import operations

    marker: Any = operations.Identity()
    marker.add_prim_attr(STOPS_GRADIENT, True)
    holders = [held for cell in cells for held in (vars(cell), vars(cell).get("_primitives") or {})]
    places = [
        (held, name, own)
        for held in holders
        for name, own in list(held.items())
        if isinstance(own, operations.StopGradient)
    ]
    with _replaced([(module, "stop_gradient_op", marker) for module in _loaded(_GRADIENTS)]):
        for held, name, _ in places:
            held[name] = marker
        try:
            yield
        finally:
            for held, name, own in places:
                held[name] = own


def _loaded(modules: Iterable[str]) -> list[Any]:
    return [sys.modules[name] for name in modules if name in sys.modules]


@contextmanager
def _replaced(stand_ins: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes of modules and classes in a with block."""
    originals = [(holder, name, vars(holder)[name]) for holder, name, _ in stand_ins if name in vars(holder)]
    for holder, name, stand_in in stand_ins:
        if name in vars(holder):
            setattr(holder, name, stand_in)
    try:
        yield
    finally:
        for holder, name, original in originals:
            setattr(holder, name, original)


def _once_a_node(get_location: Any) -> Any:
    """Wrap the search for the place of a source part, to run once per part; kept parts reuse no id."""
    found: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def remembered(parser: Any, node: Any) -> Any:
        ends = (node[0], node[-1]) if isinstance(node, (list, tuple)) and node else (node, node)
        key = (parser.filename, parser.line_offset, parser.col_offset, id(ends[0]), id(ends[1]))
        if isinstance(node, (list, tuple)) and not node:
            return get_location(parser, node)
        if key not in found:
            found[key] = ends, get_location(parser, node)
        return found[key][1]

    return remembered


def _like(module: Any, **others: Any) -> Any:
    return SimpleNamespace(**{**vars(module), **others})
