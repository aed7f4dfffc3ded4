"""A class whose forward pass has the other framework's name, so that nothing calls it."""

from __future__ import annotations

from ...passes import Change
from ..subject import Subject, class_place, classes_of, is_library_class

CODES = {
    "FC101": "a Cell defines `forward` and no `construct`: MindSpore calls `construct`",
    "FC102": "a Module defines `construct` and no `forward`: PyTorch calls `forward`",
}


def find(subject: Subject) -> list[Change]:
    """Return findings for the classes that the model is made of."""
    return [change for cls in _classes(subject) if (change := _change(cls)) is not None]


def code_of_parts(subject: Subject) -> str:
    """Return the code of the first finding for a class of the model's parts; empty where there is none."""
    return next((change.code for cls in _of_parts(subject) if (change := _change(cls)) is not None), "")


def _classes(subject: Subject) -> dict[type, None]:
    """Return the user's classes in the model, then those that its statements define as leaves."""
    own = [] if subject.module is None else [cls for _, cls in classes_of(subject.module)]
    defined = {getattr(statement, "name", None) for statement in subject.statements}
    leaves = (c for c in own if c.__name__ in defined and not any(c in other.__mro__[1:] for other in own))
    return {**_of_parts(subject), **dict.fromkeys(leaves)}


def _of_parts(subject: Subject) -> dict[type, None]:
    """Return the user's classes that parts of the model are of, each once, in order."""
    return {type(part): None for _, part in subject.parts() if not is_library_class(type(part))}


def _change(cls: type) -> Change | None:
    torch = any((c.__module__ or "").startswith("torch.nn") for c in cls.__mro__)
    called, written, code = ("forward", "construct", "FC102") if torch else ("construct", "forward", "FC101")
    if not _is_users(cls, written) or _defined_by_user(cls, called):
        return None
    holder = next(c for c in cls.__mro__ if written in vars(c))
    place = class_place(holder, written)
    return Change(
        code,
        f"`{cls.__name__}` defines `{written}` and no `{called}`: "
        f"{'PyTorch' if torch else 'MindSpore'} calls `{called}`, and nothing calls `{written}`",
        place=place or cls.__name__,
        severity="error",
        fixed=False,
        advice=f"`def {called}(` in place of `def {written}(`" + (f" at {place}" if place else ""),
    )


def _is_users(cls: type, name: str) -> bool:
    holder = next((c for c in cls.__mro__ if name in vars(c)), object)
    return holder is not object and not is_library_class(holder) and callable(vars(holder)[name])


def _defined_by_user(cls: type, name: str) -> bool:
    """Whether the class has that method from the user, or one that the library gives it to be run."""
    holder = next((c for c in cls.__mro__ if name in vars(c)), object)
    if holder is object:
        return False
    return not is_library_class(holder) or holder.__name__ not in ("Cell", "Module")
