"""Records the calls by which the user's code constructs Cells and Modules, while a model's file runs."""

from __future__ import annotations

import ast
import inspect
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from .whose_code import is_users_file


@dataclass(frozen=True, slots=True)
class Construction:
    """The call that constructs a Cell or a Module.

    Attributes:
        file: the user's file.
        line: where the call begins, from 1.
        end_line: where it ends.
        column: where it begins in its line, in bytes of UTF-8 from 0.
        end_column: where it ends.
    """

    file: str
    line: int
    end_line: int
    column: int
    end_column: int

    @property
    def place(self) -> str:
        """The line as findings name it, ``net.py:12``."""
        return f"{Path(self.file).name}:{self.line}"


_known: weakref.WeakKeyDictionary[Any, Construction] = weakref.WeakKeyDictionary()
_asked: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_drawn: weakref.WeakKeyDictionary[Any, dict[int, Construction]] = weakref.WeakKeyDictionary()
_fresh: weakref.WeakSet[Any] = weakref.WeakSet()
_given: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
_watching: set[type] = set()


def construction_of(model: Any, path: str = "") -> Construction | None:
    """Return the call that constructed a live model, or a part of it; None where nobody watched.

    Args:
        model: a Cell or a Module, or None.
        path: of the part in it.
    """
    part = part_at(model, path)
    return None if part is None else _known.get(part)


def arguments_of(part: Any) -> dict[str, Any] | None:
    """Return the constructor arguments of a library's layer by name; None if it was not watched."""
    try:
        return _given.get(part)
    except TypeError:  # what cannot be referred to weakly was not watched
        return None


def asked_at(model: Any, path: str = "") -> str:
    """Return the line that calls the function in which a part is constructed; empty where nobody watched.

    Args:
        model: a Cell or a Module, or None.
        path: of the part in it.
    """
    part = part_at(model, path)
    return "" if part is None else _asked.get(part, "")


def drawn_at(model: Any, path: str, name: str) -> Construction | None:
    """Return the call of the user's that last drew the values of a parameter; None where nobody watched.

    Args:
        model: a Cell or a Module, or None.
        path: of the part that holds the parameter.
        name: the parameter's in it.
    """
    part = part_at(model, path)
    held = getattr(part, "__dict__", {})
    tensor = (held.get("_params") or held.get("_parameters") or {}).get(name)
    return None if tensor is None else _drawn.get(model, {}).get(id(tensor))


def keep_draws(model: Any, draws: dict[int, Construction], *, loaded: bool) -> None:
    """Remember which calls drew the parameters of a model, by the parameters' identity.

    Args:
        model: the Cell or Module.
        draws: the calls.
        loaded: whether a checkpoint was loaded meanwhile.
    """
    _drawn[model] = draws
    (_fresh.discard if loaded else _fresh.add)(model)


def is_fresh(model: Any) -> bool:
    """Whether a model was seen being constructed, and no checkpoint being loaded meanwhile."""
    return model is not None and isinstance(getattr(model, "__dict__", None), dict) and model in _fresh


def current_call(frame: FrameType | None) -> Construction | None:
    """Return the call that the user's code is in; None where only ours and libraries' runs."""
    found = _user_frame(frame)
    return None if found is None else _construction(found)


def call_at(made: Construction, name: str) -> ast.Call | None:
    """Return the current syntax of a call in its file; None if it calls no class of that name."""
    try:
        calls = _calls(Path(made.file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    found = calls.get((made.line, made.end_line, made.column, made.end_column))
    if found is None:
        return None
    called = found.func.attr if isinstance(found.func, ast.Attribute) else getattr(found.func, "id", "")
    return found if called == name else None


@lru_cache(maxsize=8)
def _calls(source: bytes) -> dict[tuple[int, int | None, int, int | None], ast.Call]:
    """The calls in a file, by their first and last line and the columns there."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {(n.lineno, n.end_lineno, n.col_offset, n.end_col_offset): n for n in nodes}


def part_at(model: Any, path: str) -> Any:
    """Return a part of a live Cell or Module by its path; None where there is none."""
    for name in filter(None, path.split(".")):
        held = getattr(model, "__dict__", {})
        model = (held.get("_cells") or held.get("_modules") or {}).get(name)
    return model if hasattr(model, "__dict__") else None


@contextmanager
def constructions_noted(base: Any) -> Iterator[None]:
    """Record, in a with block, the user's call that constructs each instance of a class.

    Args:
        base: `nn.Cell` or `nn.Module`.
    """
    if base in _watching:
        yield
        return
    original = base.__init__

    @wraps(original)
    def construct(self: Any, *arguments: Any, **options: Any) -> None:
        frame = _user_frame(sys._getframe(1))
        if frame is not None:
            _known[self] = _construction(frame)
            given = _arguments(sys._getframe(1), self, frame)
            if given is not None:
                _given[self] = given
            caller = _user_frame(frame.f_back)
            if caller is not None:
                _asked[self] = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        original(self, *arguments, **options)

    _watching.add(base)
    base.__init__ = construct
    try:
        yield
    finally:
        base.__init__ = original
        _watching.discard(base)


def _arguments(frame: FrameType | None, part: Any, user: FrameType) -> dict[str, Any] | None:
    """Return the arguments of the outermost constructor of a library's that makes a part, simple ones only.

    Args:
        frame: of the innermost constructor.
        part: what is constructed.
        user: the frame of the user's that constructs it.
    """
    found: dict[str, Any] | None = None
    while frame is not None and frame is not user:
        code = frame.f_code
        if (
            code.co_name == "__init__"
            and code.co_argcount
            and frame.f_locals.get(code.co_varnames[0]) is part
        ):
            if not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
                names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
                found = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
            elif found is not None:  # it hands its arguments on, but for what it is itself
                mode = found.pop("mode", None)
                if isinstance(mode, str) and mode.startswith("RNN_"):
                    found["nonlinearity"] = mode.removeprefix("RNN_").lower()
        frame = frame.f_back
    return found


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from one on, that is neither ours nor a library's."""
    while frame is not None:
        if is_users_file(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def _construction(frame: FrameType) -> Construction:
    """Return the call that a frame is in."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if None in positions:  # compiled without them
        return Construction(frame.f_code.co_filename, frame.f_lineno, frame.f_lineno, 0, 0)
    line, end_line, column, end_column = positions
    assert line is not None
    assert end_line is not None
    assert column is not None
    assert end_column is not None
    return Construction(frame.f_code.co_filename, line, end_line, column, end_column)
