"""The models of a file: its instances, and its classes as far as they can be made."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType

from .subject import classes_of, is_model, live_parts


@dataclass(frozen=True, slots=True)
class ModelName:
    """A name in a file that stands for a model.

    Attributes:
        name: the name.
        left_out: why it is not examined; empty where it is.
    """

    name: str
    left_out: str = ""


def names_in(module: ModuleType) -> list[ModelName]:
    """Return the instances of a file, then the classes that it defines and that no instance is made of."""
    instances = {name: value for name, value in vars(module).items() if is_model(value)}
    tools = {name: kind for name, value in instances.items() if (kind := _kind_of_tool(value))}
    nets = {name: value for name, value in instances.items() if name not in tools}
    parts = {id(part): name for name, value in nets.items() for path, part in live_parts(value) if path}
    found: list[ModelName] = []
    seen: dict[int, str] = {}
    for name, value in instances.items():
        if name in tools:
            found.append(ModelName(name, tools[name]))
        elif id(value) in seen:
            found.append(ModelName(name, f"the same object as `{seen[id(value)]}`"))
        elif id(value) in parts:
            found.append(ModelName(name, f"a part of `{parts[id(value)]}`"))
        else:
            found.append(ModelName(name))
        seen.setdefault(id(value), name)
    within = {type(part): name for name, value in nets.items() for _, part in live_parts(value)}
    return found + [ModelName(name, _why_not(cls, within)) for name, cls in classes_of(module)]


_TOOLS = {
    "Optimizer": "an optimizer",
    "LossBase": "a loss",
    "_Loss": "a loss",
    "LearningRateSchedule": "a learning rate",
    "TrainOneStepCell": "a training step",
    "WithLossCell": "a net with its loss",
    "WithEvalCell": "a net with its metrics",
}
"""Class of a framework that trains a net, and is a Cell or a Module itself -> what that is."""


def _kind_of_tool(value: object) -> str:
    """Return the kind of a training tool, in words; empty for a net."""
    classes = [
        cls for cls in type(value).__mro__ if (cls.__module__ or "").startswith(("mindspore", "torch"))
    ]
    return next((_TOOLS[cls.__name__] for cls in classes if cls.__name__ in _TOOLS), "")


def _why_not(cls: type, within: dict[type, str]) -> str:
    """Return the reason for not examining a class alone."""
    if cls in within:
        return f"examined in `{within[cls]}`"
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return ""
    needed = [
        p.name
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if needed:
        return f"its constructor needs {', '.join(f'`{n}`' for n in needed)}: name it, with --arg NAME=VALUE"
    return ""
