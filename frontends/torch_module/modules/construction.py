"""Watches a model being constructed, so that the law every tensor is drawn from is known, not guessed.

`torch.nn.init`'s functions are replaced for that time by ones that note the law they stand for, and every
operation on tensors passes by a mode that follows what `uniform_`, `normal_`, `mul_`… make of the values,
whoever calls them. A tensor that anything else writes to has no law from then on.
"""

from __future__ import annotations

import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from ....frameworks.drawing import Drawing
from ....frameworks.torch import TORCH
from ....ir import Initializer
from ...constructions import Construction, current_call, keep_draws
from ...infer_initializers import UNKNOWN, constant, find_usual_law

if TYPE_CHECKING:
    from torch import Tensor, nn

Laws = dict[int, Initializer]
"""Identity of a tensor -> the law that it was drawn from, "unknown" where that is no single law."""

_known: weakref.WeakKeyDictionary[nn.Module, Laws] = weakref.WeakKeyDictionary()


def laws_of(model: nn.Module) -> Laws:
    """Return the initial distributions recorded in a model's construction; empty if it was not watched."""
    return _known.get(model, {})


@contextmanager
def watch_construction() -> Iterator[Callable[[object], None]]:
    """Watch what the block constructs; it calls what this yields with the model that came of it."""
    from torch import nn
    from torch.overrides import TorchFunctionMode

    originals = {name: getattr(nn.init, name) for name in _LAWS if hasattr(nn.init, name)}
    watcher = _Watcher({function.__code__: function for function in originals.values()})

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            return watcher.done(func, args, kwargs or {}, sys._getframe(1))

    load = nn.Module.load_state_dict
    tables: list[Any] = [nn.Embedding, nn.EmbeddingBag]
    paddings = [(kind, kind._fill_padding_idx_with_zero) for kind in tables]
    try:
        for name, function in originals.items():
            setattr(nn.init, name, watcher.noting(function, _LAWS[name]))
        nn.Module.load_state_dict = watcher.loading(load)  # trained values do not change how training starts
        for kind, function in paddings:  # the row of padding is no part of a table's law
            kind._fill_padding_idx_with_zero = watcher.unseen(function)
        with Mode():
            yield watcher.keep
    finally:
        nn.Module.load_state_dict = load
        for kind, function in paddings:
            kind._fill_padding_idx_with_zero = function
        for name, function in originals.items():
            setattr(nn.init, name, function)


class _Watcher:
    """Follows the laws of tensors by the address of their memory, which it keeps from being reused.

    Args:
        functions: code -> function of `torch.nn.init`: who calls one by another name, imported from there,
            does not pass by what replaces it, but its operations on tensors do.
    """

    def __init__(self, functions: Mapping[CodeType, Callable[..., Any]]) -> None:
        self._functions = functions
        self._laws: dict[int, tuple[object, Initializer | None]] = {}
        self._calls: dict[int, Construction | None] = {}
        self._blind = 0
        self._loads = False

    def keep(self, model: object) -> None:
        """Remember the laws of a model's parameters and buffers."""
        from torch import nn

        if isinstance(model, nn.Module):
            tensors = [*nn.Module.parameters(model), *nn.Module.buffers(model)]
            _known[model] = {
                id(t): self._settled(t) for t in tensors if _whole(t) and _address(t) in self._laws
            }
            calls = {id(t): self._calls.get(_address(t)) for t in tensors if id(t) in _known[model]}
            made = {key: call for key, call in calls.items() if call is not None}
            keep_draws(model, made, loaded=self._loads)

    def _settled(self, tensor: Tensor) -> Initializer:
        law = self._law(tensor)
        if law is None or (law.law == "trunc_normal" and math.isinf(law.number("high", 2.0))):
            return UNKNOWN
        return find_usual_law(law, tuple(tensor.shape))

    def _law(self, tensor: Tensor) -> Initializer | None:
        return self._laws.get(_address(tensor), (None, None))[1]

    def _note(self, tensor: Tensor, law: Initializer | None) -> None:
        if _address(tensor):
            self._laws[_address(tensor)] = tensor.untyped_storage(), law if _whole(tensor) else None
            self._calls[_address(tensor)] = current_call(sys._getframe(1))

    def noting(
        self, function: Callable[..., Any], law: Callable[..., Initializer | None]
    ) -> Callable[..., Any]:
        """Return a function of `torch.nn.init` that notes the law it draws from."""
        signature = inspect.signature(function)

        @wraps(function)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            result = function(*arguments, **keywords)
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            self._note_drawn(law, dict(bound.arguments))
            return result

        return noted

    def _note_drawn(self, law: Callable[..., Initializer | None], given: dict[str, Any]) -> None:
        """Note the law of a function of `torch.nn.init` that was given these arguments."""
        given.pop("generator", None)
        tensor = given.pop("tensor")
        try:
            self._note(tensor, law(tensor, **given))
        except (TypeError, ValueError):  # arguments that are no numbers
            self._note(tensor, None)

    def loading(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that loads a checkpoint, so that its operations are not followed."""
        quiet = self.unseen(function)

        @wraps(function)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            self._loads = True
            return quiet(*arguments, **keywords)

        return noted

    def unseen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose operations are not followed."""

        @wraps(function)
        def quiet(*arguments: Any, **keywords: Any) -> Any:
            self._blind += 1
            try:
                return function(*arguments, **keywords)
            finally:
                self._blind -= 1

        return quiet

    def done(self, func: Any, args: Any, keywords: dict[str, Any], caller: FrameType) -> Any:
        """Return the result of an operation, which is followed; `caller`: the code that asked for it."""
        from torch.jit._trace import is_tracing

        result = func(*args, **keywords)
        name = getattr(func, "__name__", "")
        if is_tracing():  # sizes are tensors there, and a traced call draws no parameter
            return result
        if not self._blind and getattr(func, "__module__", "") != "torch.nn.init":
            self._follow(name, args, keywords, result)
            drawing = self._functions.get(caller.f_code)
            if drawing is not None and _writes(name):
                taken = inspect.signature(drawing).parameters
                self._note_drawn(_LAWS[drawing.__name__], {n: caller.f_locals[n] for n in taken})
        return result

    def _follow(self, name: str, args: Any, keywords: dict[str, Any], result: Any) -> None:
        """Note what one operation made of its first tensor, or of a new one."""
        from torch import Tensor
        from torch.utils import _pytree as pytree

        first = args[0] if args and isinstance(args[0], Tensor) else None
        written = keywords.get("out")
        if first is not None and written is None and _writes(name):
            written = first
        if isinstance(written, Tensor):
            self._note(written, self._after(name, first, args, keywords))
            return
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, Tensor) and (first is None or _address(tensor) != _address(first)):
                law = self._after(name, first, args, keywords)
                if law is not None:
                    self._note(tensor, law)

    def _after(self, name: str, first: Tensor | None, args: Any, keywords: Any) -> Initializer | None:
        """Return the law of what an operation writes; None where it is not known."""
        if name == "copy_":
            return self._law(args[1]) if hasattr(args[1], "untyped_storage") and _whole(args[1]) else None
        before = None if first is None or not _whole(first) else self._law(first)
        try:
            if name in _CREATED:
                return _CREATED[name](*args, **keywords)
            rule = _CHANGED.get(name.strip("_"))
            return None if rule is None else rule(before, *args[1:], **keywords)
        except (TypeError, ValueError, AttributeError):  # other arguments than those of a single law
            return None


def _writes(name: str) -> bool:
    """Whether an operation changes the values of its first argument."""
    special = name.startswith("__")
    return (
        name == "__setitem__"
        or name in _IN_PLACE
        or (name.endswith("_") and not special and name not in _KEEP)
    )


_KEEP = frozenset({"requires_grad_", "detach_", "share_memory_", "rename_", "t_", "unsqueeze_", "squeeze_"})
_IN_PLACE = frozenset({"__imul__", "__iadd__", "__isub__", "__itruediv__"})


def _address(tensor: Tensor) -> int:
    """Return the address of a tensor's memory; 0 for a tensor without memory."""
    try:
        return tensor.untyped_storage().data_ptr()
    except _WITHOUT_MEMORY:
        return 0


def _whole(tensor: Tensor) -> bool:
    """Whether a tensor is all of its memory."""
    try:
        return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    except _WITHOUT_MEMORY:
        return False


_WITHOUT_MEMORY = (NotImplementedError, RuntimeError, ValueError)
"""Errors of torch for the memory of a sparse tensor, or of a lazy layer's parameter."""


# -- the laws of torch.nn.init -------------------------------------------------------------------------


def _uniform(low: float, high: float) -> Initializer:
    return Initializer.of("uniform", low=float(low), high=float(high))


def _normal(mean: float, std: float) -> Initializer:
    return Initializer.of("normal", mean=float(mean), std=float(std))


def _drawn(drawing: Drawing) -> Callable[..., Initializer | None]:
    def of(_: Tensor, **given: object) -> Initializer | None:
        law = drawing.read(given)
        return constant(law.number("value")) if law is not None and law.law == "constant" else law

    return of


def _kaiming(law: str) -> Callable[..., Initializer]:
    def of(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> Initializer:
        from torch.nn import init

        gain = init.calculate_gain(nonlinearity, a)  # type: ignore[arg-type]
        if nonlinearity == "leaky_relu":
            return Initializer.of(law, a=float(a), mode=mode)
        if gain**2 <= 2:
            return Initializer.of(law, a=math.sqrt(max(2 / gain**2 - 1, 0.0)), mode=mode)
        fan = init._calculate_correct_fan(tensor, mode)  # type: ignore[arg-type]
        bound = math.sqrt(3) * gain / math.sqrt(fan)
        return _uniform(-bound, bound) if law == "he_uniform" else _normal(0.0, gain / math.sqrt(fan))

    return of


_LAWS: dict[str, Callable[..., Initializer | None]] = {
    **{drawing.function: _drawn(drawing) for drawing in TORCH.drawings.values()},
    "_no_grad_trunc_normal_": _drawn(TORCH.drawings["trunc_normal"]),  # which others call, too
    "kaiming_uniform_": _kaiming("he_uniform"),
    "kaiming_normal_": _kaiming("he_normal"),
}
"""Function of torch.nn.init -> its law, from the tensor and the function's arguments."""


# -- the laws of tensor operations ---------------------------------------------------------------------


def _scaled(law: Initializer | None, by: float) -> Initializer | None:
    """Return the law of a tensor times a number."""
    if law is None or not isinstance(by, (int, float)):
        return None
    match law.law:
        case "zeros" | "ones" | "constant":
            return constant(_value(law) * by)
        case "uniform":
            return _uniform(*sorted((law.number("low") * by, law.number("high") * by)))
        case "normal":
            return _normal(law.number("mean") * by, law.number("std") * abs(by))
        case "trunc_normal" if by > 0:
            return Initializer.of(
                law.law, **{name: law.number(name) * by for name in ("mean", "std", "low", "high")}
            )
    return None


def _shifted(law: Initializer | None, by: float) -> Initializer | None:
    """Return the law of a tensor plus a number."""
    if law is None or not isinstance(by, (int, float)):
        return None
    match law.law:
        case "zeros" | "ones" | "constant":
            return constant(_value(law) + by)
        case "uniform":
            return _uniform(law.number("low") + by, law.number("high") + by)
        case "normal":
            return _normal(law.number("mean") + by, law.number("std"))
        case "trunc_normal":
            moved = {name: law.number(name) + by for name in ("mean", "low", "high")}
            return Initializer.of(law.law, std=law.number("std"), **moved)
    return None


def _value(law: Initializer) -> float:
    return {"zeros": 0.0, "ones": 1.0}.get(law.law, law.number("value", 0.0))


def _erfinv(law: Initializer | None) -> Initializer | None:
    """Return the law of an inverse error function: normal for a uniform sample, cut at a clamp's bounds."""
    if law is None or law.law != "uniform":
        return None
    return Initializer.of("trunc_normal", mean=0.0, std=math.sqrt(0.5), low=-math.inf, high=math.inf)


def _clamped(law: Initializer | None, min: float, max: float) -> Initializer | None:  # noqa: A002 - torch's names
    if law is None or law.law != "trunc_normal":
        return None
    mean, std = law.argument("mean", 0.0), law.argument("std", 1.0)
    return Initializer.of("trunc_normal", mean=mean, std=std, low=float(min), high=float(max))


_CHANGED: dict[str, Callable[..., Initializer | None]] = {
    "uniform": lambda _, low=0.0, high=1.0, **_generator: _uniform(low, high),
    "normal": lambda _, mean=0.0, std=1.0, **_generator: _normal(mean, std),
    "fill": lambda _, value: constant(float(value)),
    "zero": lambda _: constant(0.0),
    "erfinv": _erfinv,
    "clamp": _clamped,
    **dict.fromkeys(("mul", "imul", "rmul"), _scaled),
    **dict.fromkeys(("div", "itruediv", "truediv"), lambda law, by: _scaled(law, 1 / by)),
    **dict.fromkeys(("add", "iadd", "radd"), _shifted),
    **dict.fromkeys(("sub", "isub"), lambda law, by: _shifted(law, -by)),
}
"""Operation, in place or not -> the law of its result, from its first argument's and the other arguments."""

_CREATED: dict[str, Callable[..., Initializer]] = {
    "zeros": lambda *_, **__: constant(0.0),
    "ones": lambda *_, **__: constant(1.0),
    "full": lambda _, fill_value, **__: constant(float(fill_value)),
    "randn": lambda *_, **__: _normal(0.0, 1.0),
    "rand": lambda *_, **__: _uniform(0.0, 1.0),
    "eye": lambda *_, **__: Initializer.of("identity"),
}
"""Function that creates a tensor -> its law."""
