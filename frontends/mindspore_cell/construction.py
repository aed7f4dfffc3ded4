"""Watches a Cell being constructed, so that the law every Parameter is drawn from is known, not guessed.

An Initializer is called with the array that it fills: by `initializer()`, the layers and `set_data` alike.
What was drawn is found again by its elements, whichever way it came into a Parameter.
"""

from __future__ import annotations

import hashlib
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from ..constructions import Construction, current_call, keep_draws

Laws = dict[int, Any]
"""Identity of a Parameter -> the Initializer that it was drawn from."""

_known: weakref.WeakKeyDictionary[Any, Laws] = weakref.WeakKeyDictionary()


def laws_of(cell: Any) -> Laws:
    """Return the initial distributions recorded in a Cell's construction; empty if it was not watched."""
    return _known.get(cell, {})


@contextmanager
def watch_construction() -> Iterator[Callable[[object], None]]:
    """Watch what the block constructs; it calls what this yields with the Cell that came of it."""
    from mindspore.common.initializer import Initializer
    from mindspore.train import serialization

    loading: Any = serialization
    watcher = _Watcher()
    draw, load = Initializer.__call__, loading._update_param
    Initializer.__call__ = watcher.noting(draw)
    loading._update_param = watcher.loading(load)  # trained values do not change how training starts
    try:
        yield watcher.keep
    finally:
        Initializer.__call__, loading._update_param = draw, load


class _Watcher:
    """Remembers what every Initializer drew, by a digest."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, bytes], tuple[Any, Construction | None]] = {}
        self._loaded: dict[int, tuple[Any, Any]] = {}

    def keep(self, model: object) -> None:
        """Remember what the Parameters of a Cell were drawn from."""
        from mindspore.nn import Cell

        if not isinstance(model, Cell) or not self._drawn:
            return
        laws: Laws = {}
        for parameter in model.get_parameters():
            _, law = self._loaded.get(id(parameter), (None, None))
            law = self._law(parameter) if law is None else law
            if law is not None:
                laws[id(parameter)] = law
        _known[model] = laws
        calls = {id(p): self._found(p)[1] for p in model.get_parameters() if id(p) not in self._loaded}
        made = {key: call for key, call in calls.items() if call is not None}
        keep_draws(model, made, loaded=bool(self._loaded))

    def noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Initializer.__call__` to record draws, except one repeated number: values show it."""

        @wraps(function)
        def noted(initializer: Any, array: Any) -> Any:
            result = function(initializer, array)
            if isinstance(array, np.ndarray) and array.size > 1 and (array != array.flat[0]).any():
                made = initializer, current_call(sys._getframe(1))
                self._drawn[_digest(array)] = made
                if array.dtype == np.float32:
                    with np.errstate(over="ignore"):
                        self._drawn[_digest(array.astype(np.float16))] = made  # as `set_data` casts
            return result

        return noted

    def loading(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that loads a checkpoint into a Parameter, to record its former distribution."""

        @wraps(function)
        def noted(parameter: Any, *arguments: Any, **keywords: Any) -> Any:
            if id(parameter) not in self._loaded:
                self._loaded[id(parameter)] = parameter, self._law(parameter)
            return function(parameter, *arguments, **keywords)

        return noted

    def _law(self, parameter: Any) -> Any:
        pending = getattr(parameter, "init_mode", None)
        if pending is not None:
            return getattr(pending, "init", None)
        return self._found(parameter)[0]

    def _found(self, parameter: Any) -> tuple[Any, Construction | None]:
        """Return the initializer of a Parameter's current values, and the user's call that ran it."""
        pending = getattr(parameter, "init_mode", None) is not None
        if pending or str(parameter.dtype) not in ("Float32", "Float16", "Float64"):
            return None, None
        array = parameter.asnumpy()
        return self._drawn.get(_digest(array), (None, None)) if array.size > 1 else (None, None)


def _digest(array: np.ndarray) -> tuple[int, bytes]:
    data = np.ascontiguousarray(array)
    return data.nbytes, hashlib.blake2b(data.view(np.uint8).data, digest_size=16).digest()
