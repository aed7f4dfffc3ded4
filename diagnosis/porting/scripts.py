"""Reports behaviour of a training script and its classes that differs from the same script in PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ...frontends.class_source import is_library_class
from ...frontends.mindspore_cell.prefixes import prefix_left_out
from ...passes import Change
from ..subject import Subject, class_place, resolve_name

CODES = {
    "PT116": "a net is trained and never set to training: Cells begin in evaluation mode",
    "PT117": "nn.AdamWeightDecay corrects no bias: its first steps are larger than those of torch's AdamW",
    "PT118": "a custom bprop is lost when the net is exported or rewritten",
    "PT119": "an amp_level of O2 or O3 overrides to_float",
    "PT120": "a Cell with auto_prefix=False names the parameters of its parts without the parts' names",
}

_GRADIENTS = ("value_and_grad", "grad", "GradOperation", "TrainOneStepCell", "TrainOneStepWithLossScaleCell")
_ACTING = ("Dropout", "BatchNorm", "SyncBatchNorm", "InstanceNorm")
"""Layers that compute something else in training, by how their names begin."""


def find(subject: Subject) -> list[Change]:
    """Return findings about the classes of the model's parts, then about its file."""
    return [*_of_classes(subject), *(_of_file(subject) if subject.syntax is not None else ())]


def _change(code: str, message: str, place: str, advice: str) -> Change:
    return Change(code, message, place, "warning", fixed=False, advice=advice)


def _of_classes(subject: Subject) -> Iterator[Change]:
    for cls in dict.fromkeys(type(part) for _, part in subject.parts()):
        if not is_library_class(cls) and "bprop" in vars(cls):
            yield _change(
                "PT118",
                f"`{cls.__name__}` defines its own gradient, `bprop`, which an exported or rewritten net "
                f"does not keep",
                class_place(cls, "bprop"),
                "`ops.stop_gradient` and operators that have the gradient, where it must stay",
            )
    for path, part in subject.parts():
        cls = type(part)
        if is_library_class(cls) or getattr(part, "_auto_prefix", True):
            continue
        own = {id(p): f"{path}.{name}".lstrip(".") for name, p in part.parameters_and_names()}
        named = next((p for _, p in part.parameters_and_names() if p.name != own[id(p)]), None)
        if named is not None:
            found = prefix_left_out(part)
            yield _change(
                "PT120",
                f"`{cls.__name__}` has auto_prefix=False: its Parameter `{own[id(named)]}` is named "
                f"`{named.name}`; torch's names are paths",
                class_place(cls) if found is None else f"{found[0].file}:{found[1].lineno}",
                "`super().__init__()` without it",
            )


def _of_file(subject: Subject) -> Iterator[Change]:
    assert subject.syntax is not None
    calls = [node for node in ast.walk(subject.syntax) if isinstance(node, ast.Call)]
    for call in calls:
        if _called(call, subject) == "AdamWeightDecay":
            yield _change(
                "PT117",
                f"`{ast.unparse(call.func)}` does not correct the bias of its moments; torch's AdamW does",
                subject.place(call.lineno),
                "mindspore.experimental.optim.AdamW, which computes torch's",
            )
    steps = [c for c in calls if _called(c, subject) in _GRADIENTS]
    trains = any(_name(c.func) in ("set_train", "Model") for c in calls)
    acting = next((p for p, part in subject.parts() if type(part).__name__.startswith(_ACTING)), None)
    if steps and not trains and acting is not None:
        yield _change(
            "PT116",
            f"this code trains the net without setting it to training, so `{acting}` evaluates: Cells begin "
            f"in "
            "evaluation mode, torch's Modules in training mode",
            subject.place(min(c.lineno for c in steps)),
            f"`{_instance(subject)}.set_train()` before the loop",
        )
    cast = next((c for c in calls if _name(c.func) == "to_float"), None)
    for call in calls:
        level = next((k.value for k in call.keywords if k.arg == "amp_level"), None)
        if _name(call.func) == "auto_mixed_precision" and level is None and len(call.args) > 1:
            level = call.args[1]
        if cast is not None and isinstance(level, ast.Constant) and level.value in ("O2", "O3"):
            yield _change(
                "PT119",
                f"{level.value} computes the whole net in float16, including the Cells that `to_float` at "
                f"line "
                f"{cast.lineno} sets to another type",
                subject.place(call.lineno),
                '"O1" or "auto", or to_float alone',
            )


def _instance(subject: Subject) -> str:
    """Return the file's name of the net."""
    module: dict[str, Any] = {} if subject.module is None else vars(subject.module)
    same = (
        name for name, value in module.items() if value is subject.model or type(value) is type(subject.model)
    )
    return next(same, "net")


def _called(call: ast.Call, subject: Subject) -> str:
    """Return the name of what a call calls, where that is MindSpore's; else empty."""
    found = resolve_name(call.func, subject.module)
    home = getattr(found, "__module__", None) or ""
    return getattr(found, "__name__", "") if home.startswith("mindspore") else ""


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
