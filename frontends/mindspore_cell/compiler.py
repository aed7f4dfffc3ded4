"""MindSpore's compiler without what it repeats: sources read for each Cell anew, collections of garbage."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

_PARSERS = ("mindspore.graph._parse.parser", "mindspore._extends.parse.parser")
_EXECUTORS = ("mindspore.graph.api", "mindspore.common.api")
"""Modules of the compiler, of MindSpore 2.10 and before; where one is not there, nothing is replaced."""


@contextmanager
def quick_compiler() -> Iterator[None]:
    """Let the compiler read the source of each function once, and leave out `gc.collect` before it begins.

    It asks `inspect` for the source of a construct once for each Cell that has it; the collection is for what
    earlier compiles of a training loop left.
    """
    sources: dict[int, tuple[Any, Any]] = {}

    def getsourcelines(found: Any) -> Any:
        code = getattr(found, "__code__", None)
        if code is None:
            return inspect.getsourcelines(found)
        if id(code) not in sources:
            sources[id(code)] = code, inspect.getsourcelines(found)  # with the code, whose id is taken then
        return sources[id(code)][1]

    replaced = [
        (vars(sys.modules[module]), name, original, stand_in)
        for modules, name, original, stand_in in (
            (_PARSERS, "inspect", inspect, _like(inspect, getsourcelines=getsourcelines)),
            (_EXECUTORS, "gc", gc, _like(gc, collect=lambda: 0)),
        )
        for module in modules
        if module in sys.modules and vars(sys.modules[module]).get(name) is original
    ]
    for held, name, _, stand_in in replaced:
        held[name] = stand_in
    try:
        yield
    finally:
        for held, name, original, _ in replaced:
            held[name] = original


def _like(module: Any, **others: Any) -> Any:
    return SimpleNamespace(**{**vars(module), **others})
