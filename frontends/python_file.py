"""Models named as ``file.py:Name`` or ``package.module:Name``; naming one runs its code."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

import numpy as np

from ..ir import ModelError, framework_refusal, missing_file
from .constructions import constructions_noted
from .registry import frontend_of_model
from .user_code import neighbours_importable

_SEED = 0


def load_object(reference: str, arguments: Mapping[str, object] | None = None) -> object:
    """Import the module of `reference` and make the model it names.

    A class or factory is called with `arguments`, the random generators seeded, so that naming it again (for
    `verify` after `rewrite`) makes the same initial weights; an instance is returned as it is. The module
    gets a unique name in `sys.modules`, because MindSpore compiles Cells only from files it can find there.

    Raises:
        ModelError: when the file is missing or raises, or has no such name.
    """
    where, _, name = reference.rpartition(":")
    module = _import(where, reference)
    target: object = module
    for part in name.split("."):
        if not hasattr(target, part):
            if module.__name__ in _RAISED:
                raise _RAISED[module.__name__]
            known = sorted(
                n
                for n, v in vars(module).items()
                if _is_model(v) or (callable(v) and getattr(v, "__module__", None) == module.__name__)
            )
            folded = {n.lower(): n for n in known}
            near = get_close_matches(name.lower(), folded, 1)
            meant = f"did you mean `{folded[near[0]]}`? " if near else ""
            raise ModelError(
                "E102",
                f"expected `{name}` in `{where}`, got no such name",
                hint=f"{meant}it defines {', '.join(known)}" if known else "",
            )
        target = getattr(target, part)
    if _is_model(target):
        if arguments:
            raise ModelError(
                "E102", f"`{reference}` is an instance and takes no arguments, got {sorted(arguments)}"
            )
        return target
    if not callable(target):
        raise ModelError(
            "E102", f"expected a class, a factory or a model, got `{type(target).__name__}`", place=reference
        )
    try:
        with _importable(where), _seeded(), _standing_for_main(module), _watched() as keep:
            model = target(**dict(arguments or {}))
            keep(model)
            return model
    except (Exception, SystemExit) as error:  # the model's own code may raise anything; say where
        place = _last_line(error, reference)
        raise framework_refusal(error, place, submodules=False) or ModelError(
            "E102",
            _summary(error),
            place=place,
            hint=_called_as(target, name) if arguments or isinstance(error, TypeError) else _repeated(error),
        ) from error


def find_function(reference: str) -> Callable[..., object]:
    """Import the module of ``file.py:function`` and return the function, which is not called.

    Raises:
        ModelError: when the file is missing or raises, or has no such function.
    """
    where, _, name = reference.rpartition(":")
    module = _import(where, reference)
    found = getattr(module, name, None)
    if callable(found):
        return found
    if module.__name__ in _RAISED:
        raise _RAISED[module.__name__]
    known = ", ".join(n for n, v in vars(module).items() if inspect.isfunction(v))
    raise ModelError(
        "E102",
        f"expected a function `{name}` in `{where}`, got {'no such name' if found is None else 'a value'}",
        hint=f"it defines {known}" if known else "",
    )


def raised_in(error: BaseException, reference: str) -> ModelError:
    """Return the error for what code of a named file raised, with the line."""
    missing = framework_refusal(error, _last_line(error, reference), submodules=False)
    if missing is not None:
        return missing
    return ModelError("E102", _summary(error), place=_last_line(error, reference), hint=_repeated(error))


def _repeated(error: BaseException) -> str:
    """Return advice on two Parameters of one name in MindSpore, or on a class that a pickle lacks."""
    text = str(error)
    if "already exists" in text and "unique name" in text:
        return 'give each Parameter another name: `Parameter(…, name="w1")`'
    pickled = re.search(r"Can't get attribute '(\w+)' on <module '[\w.]*__main__'", text)
    if pickled is not None:
        name = pickled[1]
        return f"the script that pickled it defined `{name}`: define or import `{name}` in this file too"
    return ""


@contextmanager
def _standing_for_main(module: ModuleType) -> Iterator[None]:
    """Give `__main__` the names of a file that it lacks in a with block, as if the file itself ran.

    A model that a script pickled names its classes as of `__main__`.
    """
    main = vars(sys.modules["__main__"])
    before = main.get("__getattr__")

    def find(name: str) -> object:
        if name in vars(module) and not name.startswith("__"):
            return vars(module)[name]
        if before is not None:
            return before(name)
        raise AttributeError(f"module '__main__' has no attribute '{name}'")

    main["__getattr__"] = find
    try:
        yield
    finally:
        if before is None:
            main.pop("__getattr__", None)
        else:
            main["__getattr__"] = before


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed Python's, NumPy's (MindSpore uses it) and torch's generators, and restore them afterwards."""
    state, numpy_state = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")  # a torch model has imported it by now; nobody else needs it
    torch_state = None if torch is None else torch.get_rng_state()
    random.seed(_SEED)
    np.random.seed(_SEED)
    if torch is not None:
        torch.default_generator.manual_seed(_SEED)
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(torch_state)


_WATCHERS = {
    "torch": ".torch_module.modules.construction",
    "mindspore": ".mindspore_cell.construction",
}
"""Framework -> what watches its models being constructed."""

_BASES = {"torch": "Module", "mindspore": "Cell"}
"""Framework -> the class of its models."""


@contextmanager
def _watched() -> Iterator[Callable[[object], None]]:
    """Watch a model being constructed: its initial distributions, and the lines that make its parts."""
    with ExitStack() as stack:
        for framework in _WATCHERS.keys() & sys.modules.keys():
            stack.enter_context(_lines_noted(framework))
        keeps = [
            stack.enter_context(importlib.import_module(name, __package__).watch_construction())
            for framework, name in _WATCHERS.items()
            if framework in sys.modules  # a model of its has imported it by now
        ]

        def keep(model: object) -> None:
            for each in keeps:
                each(model)

        yield keep


@contextmanager
def _lines_noted(framework: str) -> Iterator[None]:
    """Write down where layers of a framework are constructed, and where Cells are put together."""
    nn = importlib.import_module(f"{framework}.nn")
    with ExitStack() as stack:
        stack.enter_context(constructions_noted(getattr(nn, _BASES[framework])))
        if framework == "mindspore":
            from .mindspore_cell.registration import watch_registrations

            stack.enter_context(watch_registrations())
        yield


@contextmanager
def _registering(path: Path) -> Iterator[None]:
    """Write down where models are put together while a file runs that imports their framework."""
    text = path.read_bytes()
    with ExitStack() as stack:
        for framework in _BASES:
            if re.search(rb"^\s*(?:import|from)\s+%b\b" % framework.encode(), text, re.MULTILINE):
                try:
                    _start(framework)
                except (ModelError, ImportError):  # not installed: the file says so itself
                    continue
                stack.enter_context(_lines_noted(framework))
        yield


def _start(framework: str) -> None:
    """Import a framework; MindSpore as its frontend does."""
    if framework == "mindspore":
        from .mindspore_cell.capture import start_mindspore

        start_mindspore()
    importlib.import_module(framework)


def _is_model(target: object) -> bool:
    return not isinstance(target, type) and frontend_of_model(target) is not None


def _import(where: str, reference: str) -> ModuleType:
    if not where.endswith(".py"):
        return _import_module(where, reference)
    path = Path(where)
    if not path.is_file():
        raise missing_file(where)
    unique = _unique_name(path)
    if unique in sys.modules:
        return sys.modules[unique]
    spec = importlib.util.spec_from_file_location(unique, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        with _importable(where), _standing_for_main(module), _registering(path):
            spec.loader.exec_module(module)
    except Exception as error:  # the file's own code may raise anything; what it made before is there
        raised = raised_in(error, reference)
        raised.__cause__ = error
        if not any(_is_model(v) or _is_own_class(v, module) for v in vars(module).values()):
            del sys.modules[unique]
            raise raised from error
        _RAISED[unique] = raised
    except BaseException as error:
        del sys.modules[unique]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise raised_in(error, reference) from error
    return module


_RAISED: dict[str, ModelError] = {}
"""Unique name of a module -> what its file raised below the names that it has."""


def raised_below(where: str) -> ModelError | None:
    """Return the exception that a file raised after the names taken from it; None if it ran through."""
    path = Path(where)
    return _RAISED.get(_unique_name(path)) if path.is_file() else None


def file_module(where: str) -> ModuleType | None:
    """Return the module of a file that was named; None before that."""
    path = Path(where)
    return sys.modules.get(_unique_name(path)) if path.is_file() else None


def run_file(where: str) -> ModuleType:
    """Run a file, and give its module; what it raised is `raised_below`.

    Raises:
        ModelError: when there is no such file, or it raises before it defines a class or a model.
    """
    return _import(where, f"{where}:")


def _is_own_class(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__


def _unique_name(path: Path) -> str:
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    package = "".join(f"{name}." for name in _package_of(path)[0])
    return f"{package}regraft_model_{path.stem}_{digest}_{path.stat().st_mtime_ns:x}"


def _package_of(path: Path) -> tuple[list[str], Path]:
    """Return the names of the packages that a file lies in, outermost first, and the folder that holds them.

    A folder is a package by its ``__init__.py``, or because a relative import in the file means it.
    """
    dots = re.findall(rb"^\s*from[ \t]+(\.+)", path.read_bytes(), re.MULTILINE)
    meant = max(map(len, dots), default=0)
    names: list[str] = []
    folder = path.resolve().parent
    while (
        "." not in folder.name and ((folder / "__init__.py").is_file() or len(names) < meant) and folder.name
    ):
        names.insert(0, folder.name)
        folder = folder.parent
    return names, folder


@contextmanager
def _importable(where: str) -> Iterator[None]:
    """Let a model's code import what lies beside it, beside its package, and in the working directory."""
    path, folders = Path(where), [Path.cwd()]
    if where.endswith(".py"):
        folders += [_package_of(path)[1], path.resolve().parent]
    with ExitStack() as stack:
        for folder in dict.fromkeys(folders):  # the last one is searched first
            stack.enter_context(neighbours_importable(folder))
        yield


def _import_module(where: str, reference: str) -> ModuleType:
    """Return a module by its dotted name: installed, or in the working directory, as for ``python -m``."""
    try:
        with _importable(where):
            spec = importlib.util.find_spec(where)
            if spec is None or spec.origin is None or not Path(spec.origin).is_file():
                return importlib.import_module(where)
            with _registering(Path(spec.origin)):
                return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise raised_in(error, reference) from error
        raise ModelError(
            "E101",
            f"expected a module `{where}`, got no module `{error.name}`",
            hint="run regraft in the folder that holds the package, or install the package",
        ) from error
    except (Exception, SystemExit) as error:  # the module's own code may raise anything
        raise raised_in(error, reference) from error


def _called_as(target: Callable[..., object], name: str) -> str:
    try:
        return f"it is called as {name}{inspect.signature(target)}; give arguments with --arg NAME=VALUE"
    except (TypeError, ValueError):  # some that are written in C do not say
        return ""


def _summary(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"the model's code raised {type(error).__name__}{': ' + text[:300] if text else ''}"


def _last_line(error: BaseException, reference: str) -> str:
    """Return the innermost line of the user's own file in a traceback."""
    where = reference.rpartition(":")[0]
    line = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).name == Path(where).name:
            line = f"{where}:{trace.tb_lineno}"
        trace = trace.tb_next
    if not line and isinstance(error, SyntaxError) and error.lineno:
        line = f"{where}:{error.lineno}"
    return line or reference
