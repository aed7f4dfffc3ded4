"""Finds training behaviour of a module that a program captured in evaluation mode does not show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal

from ....ir import CUMULATIVE
from ..module_stacks import normalised_stack
from ..modules.live_state import Untouched, memory_of
from ..modules.tree import averages_all_batches
from .cached_tensors import entries_of
from .evaluation_mode import dry_run, plainly, uncompiled
from .repeated_runs import RepeatedRuns, Seen
from .tracing import unlogged

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

_DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"})
_LOST = frozenset({"alpha_dropout", "feature_alpha_dropout"})
_ATTENTION = "scaled_dot_product_attention"
_NORM = "batch_norm"
_TELLING = frozenset({"training", _NORM, *_DROPOUTS, *_LOST})
_PLACES = frozenset({"is_cpu", "is_cuda", "is_meta"})
_STEPWISE = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_VALUES = frozenset(
    {
        *("item", "tolist", "numpy", "__array", "__bool", "__int", "__float", "__index", "__complex"),
        *("__format", "__repr", "__dlpack", "__contains", "__reduce_ex", "data_ptr"),
    }
)
"""Functions that give values of a tensor to Python, without the underscores at their end."""
_SHAPE_KEPT = (
    *("batch_norm", "layer_norm", "softmax", "relu", "relu6", "leaky_relu", "gelu", "silu"),
    *("hardswish", "hardsigmoid"),
)
"""Functions of `torch.nn.functional` whose result has the shape of their first argument."""
_SHOWN = 4

Tensors = Literal["meta", "fake", "real"]
"""The tensors of a forward."""

Calls = dict[str, list[str]]
"""Path of a module -> what its own forward calls, in order."""

Idle = dict[str, list[bool]]
"""Path of a module -> for every dropout or batch_norm that its forward calls, in order, whether training is
as inference: nothing is dropped, or nothing normalised by the batch's own statistics."""


@dataclass(slots=True)
class Look:
    """The findings of runs of a module.

    Attributes:
        notes: where training computes something else than inference.
        idle: what computes the same in both.
        leaves_nothing: whether a call outside of a trace surely fills no attribute and assigns no `.data`;
            None where nothing was run.
        only_trained: paths of the modules that training calls, and inference does not.
    """

    notes: list[str] = field(default_factory=list)
    idle: Idle = field(default_factory=dict)
    leaves_nothing: bool | None = None
    only_trained: set[str] = field(default_factory=set)


def training_differences(
    module: Module,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    kept: Untouched,
) -> Look:
    """Run the module once in each mode, without gradients; where they differ, and what is idle in both.

    Layers of torch itself are known; only modules whose own code reads `training` or drops, in functions that
    calls may run, are a reason to run anything. Nothing is computed, unless the code asks for values: tensors
    on the meta device are five times faster than fake ones, which take what lies on another device, too.
    Attributes, buffers and random state are put back.
    """
    kinds, functions = {type(m) for m in module.modules()}, kept.functions
    if not any(_could_differ(kind, functions) for kind in kinds):
        return Look()
    inference, training = _Run(), _Run()
    asking = _Asking(kinds, functions)
    ways: Sequence[Tensors] = ("meta", "fake", "real")
    leaves_nothing = False
    for tensors in ways[asking.is_certain() :]:
        noted = asking if tensors == "meta" else None
        emptied = Emptied()
        inference = _calls(module, args, keywords, tensors, kept, noted, emptied, training=False)
        if inference.error is not None and tensors != "real":
            continue
        training = _calls(module, args, keywords, tensors, kept, noted, emptied, training=True)
        if inference.error is None and training.error is None and not (noted and noted.has_run()):
            leaves_nothing = noted is not None and not inference.leaves
            break
    if training.error is not None:
        name = type(training.error).__name__
        return Look([f"training mode was not looked at: the forward raised {name} in it"])
    notes, idle = [], training.idle
    for path in dict.fromkeys([*inference.calls, *training.calls]):
        plain, trained = inference.calls.get(path, []), training.calls.get(path, [])
        if plain != trained:
            extra = [n for n in dict.fromkeys([*trained, *plain]) if trained.count(n) != plain.count(n)]
            shown = ", ".join(extra[:_SHOWN]) + (", ..." if len(extra) > _SHOWN else "")
            place = f"`{path}`" if path else "the root module"
            notes.append(
                f"{place} computes something else in training than in the graph: {shown or 'another order'}"
            )
        elif True in idle.get(path, []):
            continue
        idle.pop(path, None)
    return Look(notes, idle, leaves_nothing, training.called - inference.called)


def leaves_nothing(module: Module, args: Sequence[Any], keywords: Mapping[str, Any], kept: Untouched) -> bool:
    """Whether a call outside of a trace fills no attribute and assigns no `.data`, as one on "meta" shows."""
    asking = _Asking({type(m) for m in module.modules()}, kept.functions)
    if asking.is_certain():
        return False
    run = _calls(module, args, keywords, "meta", kept, asking, Emptied(), training=False)
    return run.error is None and not run.leaves and not asking.has_run()


def idle_dropouts(program: ExportedProgram, idle: Idle) -> set[Node]:
    """Return the nodes of a program captured in evaluation mode that drop in training mode neither."""
    return {node for node in _find_idle(program, idle) if str(node.target) in _NODES}


def state_momenta(module: Module, program: ExportedProgram, idle: Idle) -> None:
    """Give the batch norms of a program the share of the batch's statistics that they take in training.

    Evaluation shows none of a layer that averages all batches, and any of one that keeps its statistics.
    """
    averaging = {path for path, m in module.named_modules(remove_duplicate=False) if averages_all_batches(m)}
    shares = {
        node: 1 - CUMULATIVE
        for path, nodes in _nodes_in_modules(program).items()
        if path in averaging
        for node in nodes
    }
    for node, share in [*shares.items(), *((node, 0.0) for node in _find_idle(program, idle))]:
        if str(node.target) == _NORM_NODE:
            node.update_arg(_MOMENTUM, share)


def _nodes_in_modules(program: ExportedProgram) -> dict[str, list[Node]]:
    """Return the dropouts and batch norms of a program, by the innermost module that calls them."""
    called: dict[str, list[Node]] = {}
    for node in program.graph.nodes:
        if str(node.target) in _NODES or str(node.target) == _NORM_NODE:
            keys = normalised_stack(node.meta.get("nn_module_stack") or {})
            called.setdefault(keys[-1].partition("@")[0] if keys else "", []).append(node)
    return called


def _find_idle(program: ExportedProgram, idle: Idle) -> Iterator[Node]:
    """Yield the dropouts and batch norms that compute in training what they do in inference."""
    for path, nodes in _nodes_in_modules(program).items():
        flags = idle.get(path, [])
        if len(flags) == len(nodes):
            yield from (node for node, never in zip(nodes, flags, strict=True) if never)


_NODES = frozenset({"aten.dropout.default", "aten.feature_dropout.default", "aten.dropout_.default"})
_NORM_NODE = "aten.batch_norm.default"
_MOMENTUM = 6  # its place among the arguments


def _could_differ(kind: type, functions: Collection[FunctionType]) -> bool:
    return any(_names(method.__code__) & _TELLING for method in _methods_in(kind, functions))


class _Asking:
    """Methods of classes that are not torch's that ask on which device a tensor lies, and what code has run.

    Args:
        kinds: the classes.
        functions: the methods that may run.
    """

    def __init__(self, kinds: Iterable[type], functions: Collection[FunctionType]) -> None:
        methods = [method for kind in kinds for method in _methods_in(kind, functions)]
        self._asking = {id(m.__code__): m.__name__ for m in methods if _asks_where(_names(m.__code__))}
        self._run: dict[int, CodeType] = {}

    def is_certain(self) -> bool:
        """Whether one of the methods is run by every call."""
        return "forward" in self._asking.values()

    def note_stack(self) -> None:
        """Note the functions that run now."""
        frame = sys._getframe(1) if self._asking else None
        while frame is not None and frame.f_code is not _BASE:
            self._run[id(frame.f_code)] = frame.f_code
            frame = frame.f_back

    def has_run(self) -> bool:
        """Whether any of the methods has run, or code that has its name."""
        names = set(self._asking.values())
        return any(key in self._asking or names & _names(code) for key, code in self._run.items())


def _asks_where(names: set[str]) -> bool:
    return bool(names & _PLACES) or {"device", "type"} <= names


def _methods_in(kind: type, functions: Collection[FunctionType]) -> Iterator[FunctionType]:
    """Yield the methods of a class that are not torch's, of those among functions."""
    for base in kind.__mro__:
        methods = () if _of_torch(base) else vars(base).values()
        yield from (f for f in methods if isinstance(f, FunctionType) and f in functions)


def _of_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.") or kind is object


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


@dataclass(slots=True)
class _Run:
    """The findings of a run.

    Attributes:
        calls: the calls of each module that is not torch's.
        idle: the dropouts and batch norms of each that are idle.
        error: what the forward raised.
        leaves: whether it filled an attribute, or assigned the `.data` of a parameter or buffer.
        called: paths of the modules that modules which are not torch's called.
    """

    calls: Calls = field(default_factory=dict)
    idle: Idle = field(default_factory=dict)
    error: Exception | None = None
    leaves: bool = False
    called: set[str] = field(default_factory=set)


def _calls(
    module: Module,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    tensors: Tensors,
    kept: Untouched,
    asking: _Asking | None,
    emptied: Emptied,
    *,
    training: bool,
) -> _Run:
    """Run a module in one mode.

    Unless the tensors are real, operators give shapes and types only and write nothing; code that asks for
    more raises. Where they are not, equal modules run once, unless a run changes what is outside of them.
    """
    given = module, args, keywords, tensors, kept, asking, emptied, training
    run, repeated = _run_once(*given, repeats=tensors != "real")
    if repeated and (kept.has_changed or run.error is not None):
        run, _ = _run_once(*given, repeats=False)
    return run


def _run_once(
    module: Module,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    tensors: Tensors,
    kept: Untouched,
    asking: _Asking | None,
    emptied: Emptied,
    training: bool,
    *,
    repeats: bool,
) -> tuple[_Run, int]:
    """Run a module in one mode; return what it showed, and how many runs of modules repeated others."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_map

    seen: list[Seen] = []
    found = _Run()
    normalising = torch.nn.modules.batchnorm._NormBase
    stack: list[tuple[Module, bool]] = []
    paths = {m: name for name, m in module.named_modules()}
    counters: set[int] = set()

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, given: Any = (), kwargs: Any = None) -> Any:
            if asking is not None:
                asking.note_stack()
            if stack and not stack[-1][1] and not (given and id(given[0]) in counters):
                what, idle = _described(func, given, kwargs or {}), None
                if _name(func) in _DROPOUTS or _name(func) == _NORM:
                    idle = not _is_active(func, given, kwargs or {})
                if what or idle is not None:
                    seen.append(Seen(stack[-1][0], what, idle))
            if repeated and _name(func) in _VALUES:
                repeated.note_values()
            if tensors == "meta" and _name(func) in _STEPWISE:
                raise NotImplementedError(f"{_name(func)} runs step by step on the meta device")
            empty = None if tensors == "real" else _emptily(func, given)
            return func(*given, **(kwargs or {})) if empty is None else empty

    def note_call(called: Module) -> None:
        if asking is not None:
            asking.note_stack()
        if stack and not stack[-1][1]:
            seen.append(Seen(stack[-1][0], called))

    def enter(called: Module, *_: Any) -> None:
        note_call(called)
        stack.append((called, _of_torch(type(called))))

    def leave(*_: Any) -> None:
        stack.pop()

    repeated = RepeatedRuns(module, seen, note_call) if repeats else None
    copied = _cloned
    made: AbstractContextManager[Any] = nullcontext()  # what kind of tensors operators make
    if tensors == "meta":
        made = torch.device("meta")
    elif tensors == "fake":
        made = FakeTensorMode(allow_non_fake_inputs=True)
    modes = [(m, m.training) for m in paths]
    try:
        if tensors == "meta":
            copied = emptied.of
            emptied.renew(paths)  # here, where no mode follows each step
        quiet = unlogged("torch._subclasses.fake_tensor")
        alone = dry_run(module, kept)  # what one mode keeps in a cache, the other computes itself
        plain = uncompiled() if tensors == "meta" else plainly()
        repeating = repeated.repeating() if repeated else nullcontext()
        with alone, plain, quiet, made, repeating, ExitStack() as own, Recorder():
            for m in paths:
                m.training = training
            if tensors == "meta":
                own.enter_context(_emptied_tables(paths, copied))
            kind = torch.nn.Module  # whose methods an attribute of a module may hide
            own.callback(_set_modes, modes)
            for m in paths:
                own.callback(kind.register_forward_pre_hook(m, enter).remove)
                own.callback(kind.register_forward_hook(m, leave, always_call=True).remove)
            counters |= {id(m.num_batches_tracked) for m in paths if isinstance(m, normalising)}
            given, named = tree_map(copied, (tuple(args), dict(keywords)))  # a cache given is written into
            before = None if training else _left(module)
            module(*given, **named)
            found.leaves = not training and _left(module) != before
    except Exception as error:  # the model's own code may raise anything
        found.error = error
    for each in seen:
        path = paths[each.caller]
        if each.idle is not None:
            found.idle.setdefault(path, []).append(each.idle)
        if isinstance(each.what, torch.nn.Module):
            found.called.add(paths[each.what])
        if each.what:
            what = each.what if isinstance(each.what, str) else f"`{paths[each.what]}`"
            found.calls.setdefault(path, []).append(what)
    return found, repeated.count if repeated else 0


@contextmanager
def _emptied_tables(modules: Iterable[Module], empty: Callable[[Any], Any]) -> Iterator[None]:
    """Put tensors on the meta device in the place of those of modules, inside the block."""
    import torch

    held: list[tuple[dict[str, Any], str, Any, Any]] = []
    for m in modules:
        for table in (m._parameters, m._buffers, m.__dict__):
            found = [(k, v) for k, v in table.items() if isinstance(v, torch.Tensor)]
            held += [(table, k, v, empty(v)) for k, v in found]
    for table, name, _, empty_one in held:
        table[name] = empty_one
    try:
        yield
    finally:
        for table, name, value, empty_one in held:
            if table.get(name) is empty_one:  # else the forward has put another there
                table[name] = value


def _set_modes(modes: Iterable[tuple[Module, bool]]) -> None:
    for module, mode in modes:
        module.training = mode


def _left(module: Module) -> Any:
    """Return the attributes that hold tensors, and where the values of parameters and buffers are."""
    import torch

    with torch._C.DisableTorchFunction():
        kind = torch.nn.Module  # whose `named_buffers` an attribute of the module's own may hide
        held = {**dict(kind.named_parameters(module)), **dict(kind.named_buffers(module))}
        filled = {(id(e.module), e.name) for e in entries_of(module)}
        return filled, {name: memory_of(tensor) for name, tensor in held.items()}


_BASE = _run_once.__code__  # below which the code of a model runs


def _cloned(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value


class Emptied:
    """Tensors on the meta device in the place of others, one for each; those of subclasses stay."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Any]] = {}

    def renew(self, modules: Iterable[Module]) -> None:
        """Make those of the parameters and buffers of modules, but where an unchanged one is there.

        Those of all else are made anew: a forward may have changed them.
        """
        import torch

        before, self._found = self._found, {}
        with torch.no_grad():
            for m in modules:
                for table in (m._parameters, m._buffers):
                    for value in table.values():
                        known = before.get(id(value))
                        if known is not None and _is_unchanged(*known):
                            self._found[id(value)] = known
                        else:
                            self.of(value)

    def of(self, value: Any) -> Any:
        """Return the tensor in the place of a tensor; all else is returned as it is."""
        import torch

        if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            return value
        if id(value) not in self._found:
            like = value.detach().to("meta")
            if isinstance(value, torch.nn.Parameter):
                like = torch.nn.Parameter(like, requires_grad=value.requires_grad)
            self._found[id(value)] = (value, like)  # alive, so that no other has its number
        return self._found[id(value)][1]


def _is_unchanged(value: torch.Tensor, like: torch.Tensor) -> bool:
    """Whether a tensor on the meta device is as it was made in the place of another, which is contiguous."""
    import torch

    return (
        type(value) is torch.nn.Parameter
        and type(like) is torch.nn.Parameter
        and not like.is_inference()  # which has no version
        and not like._version
        and like.grad is None
        and not (like.__dict__ or value.__dict__)
        and like.requires_grad is value.requires_grad
        and like.dtype is value.dtype
        and like.device.type == "meta"
        and value.layout is like.layout is torch.strided
        and like.shape == value.shape
        and value.is_contiguous()
        and like.is_contiguous()
        and not like.storage_offset()
    )


def _emptily(func: Any, given: Sequence[Any]) -> Any:
    """Return an empty result of a function that torch takes apart into many operators; None of any other."""
    from torch.nn import functional

    match given:
        case (x, *_) if func in _keeping_shape():
            return x.new_empty(x.shape)
        case (x, weight, *_) if func is functional.linear:
            return x.new_empty((*x.shape[:-1], *weight.shape[:-1]))
        case (query, _, value, *_) if (
            func is functional.scaled_dot_product_attention and query.shape[:-2] == value.shape[:-2]
        ):
            return query.new_empty((*query.shape[:-1], value.shape[-1]))
    return None


@cache
def _keeping_shape() -> frozenset[Any]:
    from torch.nn import functional

    return frozenset(getattr(functional, name) for name in _SHAPE_KEPT)


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", "")).rstrip("_")


def _is_active(func: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a call of a dropout function drops, or one of batch_norm normalises by the batch."""
    if _name(func) == _NORM:
        return bool(args[5] if len(args) > 5 else keywords.get("training", False))
    default = _name(func) not in _LOST
    return bool(args[2] if len(args) > 2 else keywords.get("training", keywords.get("train", default)))


def _described(func: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """A call's name with the numbers given, and whether it drops; empty where there is nothing to compare."""
    name = _name(func)
    if name in ("__get", "__set", "__bool", ""):
        return ""
    if name in _DROPOUTS | _LOST:
        ratio = args[1] if len(args) > 1 else keywords.get("p", 0.5)
        dropping = name in _DROPOUTS or _is_active(func, args, keywords)
        return f"{name}({ratio})" if ratio and dropping else name
    if name == _ATTENTION:
        ratio = args[4] if len(args) > 4 else keywords.get("dropout_p", 0.0)
        return f"{name}(dropout_p={ratio})" if ratio else name
    numbers = [] if "norm" in name else [f"{a:g}" for a in args if type(a) in (int, float)]
    return f"{name}({', '.join(numbers)})" if numbers else name
