"""Turns the failed import of a framework, which is missing or too old, into an error of ours."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import ModelError

_FRAMEWORKS = ("mindspore", "torch")
"""Frameworks that an extra of this package installs."""


@contextmanager
def framework_errors_told() -> Generator[None]:
    """Turn the failed import of a framework into a user's error, in a with block.

    Raises:
        ModelError: E105, with what to install.
    """
    try:
        yield
    except (ImportError, TypeError) as error:
        refusal = framework_refusal(error)
        if refusal is None:
            raise
        raise refusal from error


def framework_refusal(error: BaseException, place: str = "", *, submodules: bool = True) -> ModelError | None:
    """Return the error of an import of a framework that failed with `error`; None if another failed.

    Args:
        error: what was raised.
        place: the line that imports it.
        submodules: whether a module that lies in an installed framework counts as the framework.
    """
    framework = _imported(error)
    if framework is None:
        return (
            _absent(error.name or "", place, submodules) if isinstance(error, ModuleNotFoundError) else None
        )
    if isinstance(error, TypeError) and "Descriptors cannot be created directly" in str(error):
        # MindSpore before 2.10 holds code of an old protoc, which protobuf from 4 on refuses in its C form
        beside = (
            f"`{framework}` {_version(framework)} cannot be imported beside protobuf {_version('protobuf')}"
        )
        return _too_old(beside, framework, place)
    if isinstance(error, ImportError):
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return ModelError("E105", f"`{framework}` is installed, but cannot be imported: {first}", place=place)
    return None


def _imported(error: BaseException) -> str | None:
    """Return the framework whose own import raised the error."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") in _FRAMEWORKS:
            return str(frame.f_globals["__name__"])
    return None


def _absent(name: str, place: str, submodules: bool) -> ModelError | None:
    framework = name.partition(".")[0]
    if framework not in _FRAMEWORKS or (name != framework and not submodules):
        return None
    if name != framework and importlib.util.find_spec(framework) is not None:
        lacking = f"expected a version of `{framework}` that has `{name}`, got {_version(framework)}"
        return _too_old(lacking, framework, place)
    return ModelError(
        "E105",
        f"expected `{framework}` to be installed, got no such module",
        place=place,
        hint=f'pip install "regraft[{framework}]"',
    )


def _too_old(what: str, framework: str, place: str) -> ModelError:
    return ModelError("E105", what, place=place, hint=f'pip install --upgrade "regraft[{framework}]"')


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "one without a version"
