"""User code that this process runs: it finds the modules beside it, and cannot end the process."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from ..ir import ModelError
from .whose_code import is_users_file

_IMPORTING = ("<frozen importlib", importlib.__file__ or "<frozen importlib")


@contextmanager
def exits_refused() -> Iterator[None]:
    """Turn a model's attempt to end the process into an error of the model, in a with block.

    Its exit code would be taken for the answer: 0 for "equal".

    Raises:
        ModelError: for SystemExit.
    """
    try:
        yield
    except SystemExit as stop:
        raise ModelError(
            "E102",
            f"the model's code ends the process: sys.exit({str(stop.code)[:80]})",
            place=_place(stop),
            hint="a model must return to regraft; remove the exit, or guard it with `if __name__ == "
            '"__main__"`',
        ) from stop


def _place(error: BaseException) -> str:
    """Return the innermost line of a traceback that is neither ours nor a library's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users_file(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


@contextmanager
def neighbours_importable(folder: Path) -> Iterator[None]:
    """Let the code of a folder, and no other code, import the modules of that folder in a with block.

    They shadow neither the standard library nor what this package depends on: a `torch.py` beside a model is
    never taken for torch, by the model as little as by an import that comes later.
    """
    finder = _Neighbours(folder)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Neighbours(MetaPathFinder):
    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of the folder, where the folder's own code asks for it."""
        if path is not None or fullname in sys.stdlib_module_names or not self._is_own():
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, [self._folder])
        return None if spec is None or (spec.loader is not None and is_ours(fullname)) else spec

    def _is_own(self) -> bool:
        """Whether a file of the folder is importing, or this package on behalf of a name that was given."""
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_IMPORTING):
            frame = frame.f_back
        name = frame.f_code.co_filename
        if name == _BY_NAME:
            return True
        return name.startswith(f"{self._folder}{os.sep}") and "site-packages" not in name


_BY_NAME = str(Path(__file__).with_name("python_file.py"))


def is_ours(name: str) -> bool:
    """Whether an installed package of that name is among what this one imports, directly or not."""
    if importlib.machinery.PathFinder.find_spec(name) is None:
        return False
    return name in _FRAMEWORKS or bool(_dependencies() & set(_distributions().get(name, ())))


_FRAMEWORKS = frozenset({"regraft", "torch", "mindspore", "mxnet", "numpy", "onnx", "onnxruntime"})


@cache
def _distributions() -> dict[str, list[str]]:
    """Top-level module -> the distributions that install it, under normalised names."""
    return {
        name: [_normalised(found) for found in distributions]
        for name, distributions in importlib.metadata.packages_distributions().items()
    }


@cache
def _dependencies() -> frozenset[str]:
    """Return the distributions that this package and the frameworks need, and what those need."""
    found: set[str] = set()
    waiting = ["regraft", "torch", "mindspore"]
    while waiting:
        name = _normalised(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            waiting += [_required(text) for text in importlib.metadata.requires(name) or ()]
        except importlib.metadata.PackageNotFoundError:  # not installed, or a framework that is not needed
            continue
    return frozenset(found)


def _required(text: str) -> str:
    """Return the name in a requirement such as ``numpy>=1.26; extra == "x"``."""
    end = next((at for at, c in enumerate(text) if not (c.isalnum() or c in "-_.")), len(text))
    return text[:end]


def _normalised(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
