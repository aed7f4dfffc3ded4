"""Records training-only settings of MindSpore Cells while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...frameworks.mindspore import dropped_share
from .settings import CHANNELS, DROPOUT, MOMENTUM, Setting

_FUNCTIONS = {
    "dropout": DROPOUT,
    "dropout1d": CHANNELS,
    "dropout2d": CHANNELS,
    "dropout3d": CHANNELS,
}
"""Functions of `mindspore.ops` with an input, a ratio `p` and `training`."""

_LAYERS = {
    "Dropout": DROPOUT,
    "DropoutExt": DROPOUT,
    "Dropout1d": CHANNELS,
    "Dropout2d": CHANNELS,
    "Dropout3d": CHANNELS,
    "Dropout2dExt": CHANNELS,
}


class SettingsRecorder:
    """Records training-only settings while Cells run.

    Args:
        cells: every Cell that may run, with the ratios that they have now.
        paths: id of a Cell -> the source's path of it, or its paths in turn.

    Attributes:
        found: the settings, in the order of the run.
    """

    def __init__(self, cells: Sequence[Any], paths: Mapping[int, str | tuple[str, ...]]) -> None:
        self.found: list[Setting] = []
        self._settings = {id(cell): _settings_of(cell) for cell in cells}
        self._whole = {id(cell) for cell in cells if _is_whole(cell)}
        self._paths, self._turns = paths, dict[int, int]()
        self._stack = [""]
        self._inside = 0

    @contextmanager
    def recording(self, *, training: bool) -> Iterator[None]:
        """Record the calls made in a with block, from scratch.

        Args:
            training: whether only what does drop counts, rather than what would in training.
        """
        from mindspore import nn, ops

        library: Any = nn  # whose annotations do not know that a method can be replaced
        kind = library.Cell
        self.found, self._turns, self._stack, self._inside = [], {}, [""], 0
        run, functions = kind.__call__, {name: getattr(ops, name) for name in _FUNCTIONS}

        def call(cell: Any, *arguments: Any, **keywords: Any) -> Any:
            self._enter(cell, training=training)
            try:
                return run(cell, *arguments, **keywords)
            finally:
                self._leave(cell)

        kind.__call__ = call
        for name, function in functions.items():
            setattr(ops, name, self._noting(_FUNCTIONS[name], function, training=training))
        try:
            yield
        finally:
            kind.__call__ = run
            for name, function in functions.items():
                setattr(ops, name, function)

    def _enter(self, cell: Any, *, training: bool) -> None:
        path = self._paths.get(id(cell), self._stack[-1])
        if isinstance(path, tuple):
            turn = self._turns[id(cell)] = self._turns.get(id(cell), -1) + 1
            path = path[turn % len(path)]
        self._stack.append(path)
        if not self._inside and (cell.training or not training):
            self.found += [Setting(kind, value, path) for kind, value in self._settings.get(id(cell), ())]
        self._inside += id(cell) in self._whole

    def _leave(self, cell: Any) -> None:
        self._stack.pop()
        self._inside -= id(cell) in self._whole

    def _noting(self, kind: str, function: Callable[..., Any], *, training: bool) -> Callable[..., Any]:
        def noted(x: Any, p: float = 0.5, training_: bool = True, *rest: Any, **keywords: Any) -> Any:
            active = keywords.pop("training", training_)
            if p and not self._inside and (active or not training):
                self.found.append(Setting(kind, float(p), self._stack[-1]))
            return function(x, p, active, *rest, **keywords)

        return noted


def _is_recurrent(cell: Any) -> bool:
    from ...frontends.mindspore_cell.operators.recurrent import recurrent_kind  # with all its operators

    return bool(recurrent_kind(cell))


def _is_whole(cell: Any) -> bool:
    """Whether a layer of MindSpore says by its own attributes what its parts drop."""
    attention = type(cell).__name__ == "MultiheadAttention" and _of_mindspore(cell)
    return attention or _is_recurrent(cell)


def _settings_of(cell: Any) -> list[tuple[str, float]]:
    """Return (kind, value) of each training-only setting that a Cell's call uses itself."""
    name = type(cell).__name__
    if not _of_mindspore(cell):
        return []
    if name in _LAYERS:
        ratio = dropped_share(cell)
        return [(_LAYERS[name], ratio)] if ratio else []
    if _is_recurrent(cell):
        ratio = float(getattr(cell, "dropout", 0.0))
        return [(DROPOUT, ratio)] * (int(getattr(cell, "num_layers", 1)) - 1) if ratio else []
    if name == "MultiheadAttention":
        return [(DROPOUT, float(cell.dropout))] if cell.dropout else []
    if name.startswith("BatchNorm") and isinstance(getattr(cell, "momentum", None), float):
        return [(MOMENTUM, 1.0 - cell.momentum)]
    return []


def _of_mindspore(cell: Any) -> bool:
    return type(cell).__module__.partition(".")[0] == "mindspore"
