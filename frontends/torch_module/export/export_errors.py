"""Translates torch.export's errors for the user: the model's line, the obstacle for torch, and the fix."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ....ir import ModelError, RegraftError

if TYPE_CHECKING:
    from types import FrameType

    from torch.nn import Module

_AS_FLOATS = (
    "leave the layers that do this as floats (`layer.qconfig = None` before `prepare`, or fewer classes for "
    "`quantize_dynamic`), or give the float model"
)
"""Advice on quantised layers."""

_REFUSALS = ("torch._dynamo", "torch.fx", "torch.export", "torch._export", "torch._subclasses")
"""Modules of the errors by which torch.export refuses a model."""


def loop_error(place: str) -> ModelError:
    """E104 for a loop whose turns are data, and that calls what has no lowering."""
    return ModelError(
        "E104",
        "the model repeats a loop as often as data say, as a solver of differential equations with an "
        "adaptive step size does",
        place=place,
        hint="give the solver a fixed step (torchdiffeq: `method='rk4', options={'step_size': 0.1}`), or "
        "write the loop with torch.while_loop",
    )


def size_error(place: str, selecting: str = "") -> ModelError:
    """E104 for code that goes on in another way by how many elements it selects.

    Args:
        place: its line.
        selecting: the module that was selecting boxes, as `selecting_module` gives it.
    """
    if selecting:
        return _boxes_error(place, selecting)
    what, hint = _OF_SIZES
    return ModelError("E104", f"torch.export refused the model: {what}", place=place, hint=hint)


def _boxes_error(place: str, selecting: str) -> ModelError:
    return ModelError(
        "E104",
        f"torch.export cannot follow {selecting}, which selects boxes: how many there are is data",
        place=place,
        hint="convert the layers before it as a module of their own, whose forward returns "
        "`self.head(list(self.backbone(images).values()))` or the like for the model's `backbone` and "
        "`head` (or `rpn.head`), and select among its boxes and scores in code of the target",
    )


class DecidedNumber(Exception):  # noqa: N818 - no error of anybody's
    """The example decided a number, which is another for most inputs.

    Attributes:
        place: file and line of the model's code that asked for it.
        real: whether it is no whole number.
    """

    def __init__(self, place: str, *, real: bool) -> None:
        super().__init__("the example decides a number, which is another for most inputs")
        self.place, self.real = place, real


def export_error(module: Module, error: Exception) -> RegraftError:
    """E104 where torch.export refuses, E103 where the model raises on these inputs; our own as it is."""
    if isinstance(error, RegraftError):  # of an archive whose code is interpreted
        return error
    if isinstance(error, DecidedNumber):
        first = error.__cause__
        assert isinstance(first, Exception), "a number is decided where the first way failed"
        if not _selecting(module, first) and not _packs(first):
            what, hint = _of_a_number(real=error.real)
            place = error.place or type(module).__name__
            return ModelError("E104", f"torch.export refused the model: {what}", place=place, hint=hint)
        error = first
    place = _place_of(module, error)
    if what := _without_form(module, error):
        return ModelError(
            "E104", f"there is no form of {what} in quantised layers yet", place=place, hint=_AS_FLOATS
        )
    if _packs(error):
        return ModelError(
            "E104",
            "torch.export cannot follow code on the steps of a PackedSequence, whose number is data",
            place=place,
            hint="unpack it with pad_packed_sequence before other code; recurrent layers take it as it is",
        )
    if selecting := _selecting(module, error):
        return _boxes_error(place, selecting)
    if quantised := _quantised(module):
        return ModelError(
            "E104",
            f"torch.export cannot follow quantised layers, and {len(quantised)} of the model are: "
            f"{', '.join(quantised[:3])}{', …' if len(quantised) > 3 else ''}",
            place=type(module).__name__,
            hint=_AS_FLOATS,
        )
    if found := re.search(r"Found <class '([^']+)'> in output", str(error)):
        return ModelError(
            "E104",
            "expected a model that returns tensors, or tuples, lists, dicts or dataclasses of them, "
            f"got `{found[1].rpartition('.')[2]}`",
            place=place,
            hint="return such a container, or register the class with torch.utils._pytree",
        )
    if hidden := hidden_error(module, error):
        return hidden
    if "() is not supported for tensor subclasses" in str(error):
        return ModelError(
            "E104",
            "torch.export cannot follow NumPy, to which the model's code gives a tensor",
            place=place,
            hint="compute it with torch's functions, which bear the same names for the most part",
        )
    if _nests(error):
        return ModelError(
            "E104",
            "torch.export cannot follow nested tensors (torch.nested)",
            place=place,
            hint="pad the rows, torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), and mask what is "
            "behind their ends",
        )
    if derives(error):
        return ModelError(
            "E104",
            "torch.export cannot follow a derivative that the model takes itself (torch.func.grad, "
            "torch.autograd.grad)",
            place=place,
            hint="write the derivative out in operators, or give it as an input",
        )
    if is_refusal(error):
        what, hint = _of_bodies(error) or _of_numbers(error) or (first_line(error), _ON_CONTROL_FLOW)
        return ModelError("E104", f"torch.export refused the model: {what}", place=place, hint=hint)
    raised = first_line(error)
    wants_whole = "scalar types: Long, Int" in raised or "must be long" in raised
    return ModelError(
        "E103",
        f"the model raised {raised}",
        place=place,
        hint="give whole numbers where the model looks up by them: --input NAME=SHAPE:int64"
        if wants_whole
        else "check the shapes and element types given with --input",
    )


def trace_error(module: Module, error: Exception) -> ModelError:
    """E104 for what torch.export raised while it traced a model that runs on the same inputs."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    wrapped = next((n for n in _WRAPPED if list(module._modules) == [n]), None)
    hint = "rewrite the code at that line with other functions of torch, or remove it from the model"
    if wrapped is not None:
        hint = f"give the module that `{type(module).__name__}` wraps: its attribute `{wrapped}`"
    return ModelError(
        "E104",
        f"torch.export cannot trace the model, which itself runs on these inputs: {first_line(cause)}",
        place=_place_of(module, cause),
        hint=hint,
    )


_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module", "_original_module")
"""Names under which wrappers for training hold the module that they wrap."""


def _place_of(module: Module, error: Exception) -> str:
    """Return the model's line that raised; if torch reran a trace, the line that the trace states."""
    raised = traceback.extract_tb(error.__traceback__)
    stated = re.findall(r'File "([^"]+)", line (\d+), in', str(error).partition("Original traceback:")[2])
    traced = [traceback.FrameSummary(file, int(line), "", lookup_line=False) for file, line in stated]
    return user_location(raised) or user_location(traced) or _running(module, error)


def _running(module: Module, error: Exception) -> str:
    """Return the innermost module whose code was running, by path and class."""
    paths = {id(m): path for path, m in module.named_modules()}
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    owners = [f.f_locals.get("self") for f in frames]
    found = next((o for o in reversed(owners) if id(o) in paths), module)
    path = paths[id(found)]
    return f"{path} ({type(found).__name__})" if path else type(found).__name__


def derives(error: Exception) -> bool:
    """Whether the code that raised was taking a derivative, or a tensor that one gave was left over."""
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    files = [Path(f.filename) for e in chain for f in traceback.extract_tb(e.__traceback__)]
    said = (  # of tensors made out of its sight
        "fake tensor in the exported program constant",
        "functorch tensor",
    )
    return any(words in str(error) for words in said) or any(f.parts[-3:] in _DERIVATIVES for f in files)


_DERIVATIVES = (
    ("torch", "_functorch", "eager_transforms.py"),
    ("torch", "autograd", "__init__.py"),
    ("torch", "autograd", "functional.py"),
)
"""Files of torch's that take derivatives."""


def require_python(module: Module) -> None:
    """Refuse a model with parts that torch.jit has compiled: whether torch can trace them varies.

    Raises:
        ModelError: E104 for such a one.
    """
    scripted = _scripted(module)
    if scripted:
        raise _of_scripted(module, scripted)


def _of_scripted(module: Module, scripted: Sequence[str]) -> ModelError:
    return ModelError(
        "E104",
        f"torch.export cannot follow TorchScript, and {len(scripted)} of the modules are scripted or "
        f"traced: {', '.join(scripted[:3])}{', …' if len(scripted) > 3 else ''}",
        place=type(module).__name__,
        hint="write all of it with torch.jit.save(model, 'net.pt') and name net.pt; or give the model from "
        "before torch.jit.script or torch.jit.trace",
    )


_ON_CONTROL_FLOW = (
    "where control flow depends on shapes, --no-dynamic-batch may help; "
    "where it depends on data, write it with torch.cond or torch.while_loop"
)


def _of_bodies(error: Exception) -> tuple[str, str] | None:
    """Return torch's error about bodies of `cond` and the like, without its stack, and its first advice."""
    if type(error).__name__ != "UncapturedHigherOrderOpError":
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = lines[1:] if "captured completely" in lines[0] else lines
    rows = [line.partition(":") for line in lines]
    facts = {key: value.strip() for key, _, value in reversed(rows)}  # of several, the first
    what = " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])
    return f"in `{facts.get('Higher Order Operator', 'a body')}`, {what[:300]}", facts.get("Hint", "")


def _of_numbers(error: Exception) -> tuple[str, str] | None:
    """Return the use of a number that Python takes out of a tensor, and the fix; None for other errors."""
    if type(error).__name__ != "GuardOnDataDependentSymNode":
        return None
    if names_sizes(error):
        return _OF_SIZES
    return _of_a_number(real=re.search(r"\bzu?f\d", str(error)) is not None)


def names_sizes(error: BaseException) -> bool:
    """Whether torch refused a condition on sizes that data decide, rather than on other numbers."""
    sizes = re.search(r"Size-like symbols: ([^)]*)", str(error))
    return sizes is not None and sizes[1].strip() not in ("", "none")


_OF_SIZES = (
    "its code goes on by how many elements it finds in data (`nonzero`, `where` of one argument, `x[mask]`)",
    "keep every element and weigh it by the mask: `(x * mask).sum() / mask.sum()` in place of "
    "`x[mask].mean()`; `x[:300]` or `x.topk(min(300, len(x)))` in place of `if len(x) > 300`",
)


def _of_a_number(*, real: bool) -> tuple[str, str]:
    taken = "`.item()`, `float()`, `.tolist()`" if real else "`.item()`, `int()`, `nonzero`, a mask as index"
    return (
        f"its code goes on by a number that is data-dependent, taken out of a tensor ({taken})",
        "leave it a tensor: `x.max()` in place of `x.max().item()`, torch.sqrt in place of math.sqrt, "
        f"torch.where in place of `if`; {_ON_CONTROL_FLOW}",
    )


def _packs(error: Exception) -> bool:
    """Whether a PackedSequence was in the hands of the code that raised."""
    from torch.nn.utils.rnn import PackedSequence

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(isinstance(v, PackedSequence) for frame in frames for v in frame.f_locals.values())


_SELECTIONS = frozenset(
    {"nms", "batched_nms", "multiclass_nms", "non_max_suppression", "remove_small_boxes"}
    | {"filter_proposals", "postprocess_detections", "heatmaps_to_keypoints"}
)
"""Functions by which detection models select boxes, in torchvision and elsewhere."""


def _selecting(module: Module, error: Exception) -> str:
    """Return the module that was selecting boxes when torch refused; empty for other errors."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return selecting_module(module, frames) if is_refusal(error) else ""


def selecting_module(module: Module, frames: Iterable[FrameType]) -> str:
    """Return the innermost module that is selecting boxes, as ``path (in function)``; empty for none.

    Args:
        module: the model.
        frames: of the code that runs, the innermost last.
    """
    running = list(frames)
    at = next((i for i, f in enumerate(running) if f.f_code.co_name in _SELECTIONS), None)
    if at is None:
        return ""
    paths = {id(m): path for path, m in module.named_modules()}
    callers = [f.f_locals.get("self") for f in running[: at + 1]]
    caller = next((c for c in reversed(callers) if id(c) in paths), module)
    return f"`{paths[id(caller)] or type(caller).__name__}` (in {running[at].f_code.co_name})"


def _scripted(module: Module) -> list[str]:
    """Return the outermost modules that torch.jit has compiled, as ``path (class)``."""
    import torch

    kind = torch.jit.ScriptModule
    found = {path: m for path, m in module.named_modules() if isinstance(m, kind)}
    inner = {
        f"{path}.{name}" if path else name for path, m in found.items() for name, _ in m.named_children()
    }
    names = {path: getattr(m, "original_name", type(m).__name__) for path, m in found.items()}
    return [f"`{p}` ({n})" if p else n for p, n in names.items() if p not in inner]


def _quantised(module: Module) -> list[str]:
    """Return the layers that hold packed integers, as ``path (class)``."""
    return [
        f"`{path}` ({type(m).__name__})" if path else type(m).__name__
        for path, m in module.named_modules()
        if type(m).__module__.startswith("torch.ao.nn.")
        and ".quantized." in type(m).__module__
        and not type(m).__name__.endswith(("FloatFunctional", "PackedParams"))
    ]


def _without_form(module: Module, raised: Exception) -> str:
    """Return what of quantised layers an error says has no form yet; empty for any other error."""
    from ..quantised.stand_in import NoFormError

    if _packs(raised) and any(".quantized.dynamic" in type(m).__module__ for m in module.modules()):
        return "a recurrent layer on packed sequences"
    error: BaseException | None = raised
    while error is not None:
        if isinstance(error, NoFormError):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def hidden_error(model: object, error: Exception) -> ModelError | None:
    """E104 for a method of `torch.nn.Module` that an attribute hides, where that was called; None else."""
    import torch

    kind = torch.nn.Module
    if not isinstance(model, kind) or not _says_not_callable(error):
        return None
    methods = {n for n, v in vars(kind).items() if callable(v)}
    left = [("", model)]
    while left:  # `named_modules` may be what is hidden
        path, module = left.pop()
        hidden = [n for n, v in vars(module).items() if n in methods and not callable(v) and v is not None]
        if hidden:
            return ModelError(
                "E104",
                f"torch calls the method `{hidden[0]}`, which an attribute of "
                f"`{path or type(module).__name__}` hides",
                place=type(model).__name__,
                hint="give the attribute another name",
            )
        held = [(n, m) for n, m in module._modules.items() if m is not None]
        left += [(f"{path}.{name}" if path else name, m) for name, m in reversed(held)]
    return None


def _says_not_callable(error: Exception) -> bool:
    return isinstance(error, TypeError) and str(error).endswith("object is not callable")


def _nests(error: Exception) -> bool:
    """Whether a function of torch.nested raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("/torch/nested/" in frame.filename.replace("\\", "/") for frame in frames)


def is_refusal(error: Exception) -> bool:
    """Whether the error is of torch.export's own kinds, rather than one that the model's code raises."""
    return type(error).__module__.startswith(_REFUSALS)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that says something, after its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}{': ' + lines[0][:300] if lines else ''}"


def user_location(frames: Sequence[traceback.FrameSummary], *, whole: bool = False) -> str:
    """Return ``file:line`` of the innermost frame that is neither PyTorch's, nor Python's, nor ours.

    Args:
        frames: the innermost last.
        whole: give the whole path of the file.
    """
    for frame in reversed(frames):
        name = frame.filename
        if _is_users(name):
            return f"{name if whole else short_path(name)}:{frame.lineno}"
    return ""


@cache
def _is_users(name: str) -> bool:
    """Whether a file of code is neither PyTorch's, nor Python's, nor ours."""
    import torch

    library = f"{Path(torch.__file__).parent}/"  # torchvision, its neighbour, is a user's code
    python = tuple(f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "platstdlib"))
    ours = f"{Path(__file__).parents[1]}/"  # as frames have it, through a link too
    if name.startswith(python) and "-packages/" not in name:
        return False
    return not name.startswith(("<", library, ours)) and "importlib" not in name


def short_path(name: str) -> str:
    """Return a path relative to the working directory where it is inside it, else the file's name."""
    path = Path(name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
