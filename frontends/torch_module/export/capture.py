"""Capturing a live module with torch.export, in evaluation mode, leaving the module as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....ir import ModelError, missing_file
from ...options import LoadOptions
from ..module_stacks import normalised_stack
from ..modules.lazy import initialise, uninitialised, uninitialised_error
from ..modules.live_state import Untouched, assigned_by, may_assign, structure_kept
from ..modules.plain_tensors import require_plain
from ..saved.program import Saved, read_program
from ..symbols import is_symbolic
from .assigned_data import data_assigned
from .cached_tensors import entries_read, find_caches, kept_between_calls
from .containers import open_containers
from .decided_sizes import (
    SizeDecision,
    differs_from_program,
    first_deviating,
    repeated_to,
    shape_at,
    sizes_decided,
)
from .evaluation_mode import dry_run, evaluation
from .example_arguments import Arguments, Arrange, bind, dynamic_axes, spelled_out
from .export_errors import export_error, first_line, require_python, trace_error
from .module_methods import idle_moves, own_gradients, registered_members, without_new_buffers, wrapped_alone
from .on_data.sizes_of_selections import sides_left_out
from .opaque_layers import layers_kept_whole
from .repeated_calls import Repetition
from .strategies import Sizes, Unfaithful, choose_sizes, trace
from .symbolic_builtins import products_by_example
from .tensors import array_of, as_real, tensor_of, tensor_placeholders
from .tracing import lean_tracing, silent, unlogged, unused_constants
from .training_modes import idle_dropouts, leaves_nothing, state_momenta, training_differences
from .vmap_regions import without_vmap
from .written_casts import marked_casts

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

NamedArrays = Sequence[tuple[str, "np.ndarray | None"]]


@dataclass(slots=True)
class Captured:
    """An exported program and what was seen while it was made.

    Attributes:
        program: the program, operators undecomposed.
        module: the live module, or None for a saved program.
        examples: example array of every tensor input, in order.
        calls: every module call in execution order: its chain of keys ``path@n`` from the root, and the
            module called (None for a saved program).
        notes: what a reader of the result should know.
        arrange: the model's arguments and keywords from its tensors in order.
        idle: dropouts that drop in no mode.
        assumed: those of the notes on what holds for some inputs only.
        kept: what dry runs of the model share.
        assigns: whether the model may have assigned attributes, or filled containers, when it was traced.
        equal_sizes: torch's symbol of a batch -> that of the first input's, where the program takes no other.
        leaves_nothing: whether a call outside of a trace surely fills no attribute and assigns no `.data`.
        followed: names of the parameters and buffers whose `.data` it assigns as the program does.
        only_trained: paths of the modules that training alone calls.
    """

    program: ExportedProgram
    module: Module | None
    examples: list[np.ndarray]
    calls: list[tuple[tuple[str, ...], Module | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    arrange: Arrange | None = None
    idle: set[Node] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)
    kept: Untouched | None = None
    assigns: bool = True
    equal_sizes: dict[Any, Any] = field(default_factory=dict)
    leaves_nothing: Callable[[], bool] = lambda: False
    followed: set[str] = field(default_factory=set)
    only_trained: set[str] = field(default_factory=set)


def capture(module: Module, inputs: NamedArrays, options: LoadOptions, *, numbers: bool = False) -> Captured:
    """Export a module.

    Axis 0 of the inputs that share the first tensor input's axis 0 is dynamic; where the module insists on
    one size, the program is static and a note says so.

    Args:
        module: the model.
        inputs: example inputs.
        options: which axes are dynamic.
        numbers: whether the values of small buffers are numbers from the start.

    Raises:
        ModelError: E103 when the inputs do not fit, E104 when torch.export refuses.
    """
    require_python(module)
    require_plain(module)
    bound = bind(module, inputs)
    axes = dynamic_axes(bound, options)

    def call() -> object:
        args, kwargs = bound.built(lambda _, leaf: leaf)  # anew: a cache that is given is written into
        return module(*args, **kwargs)

    def other_call() -> object:
        args, kwargs = bound.built(lambda _, leaf: _turned(leaf))
        return module(*args, **kwargs)

    drawn = _initialised(module, call, options)
    try:
        found = _with_axes(module, bound, axes, numbers)
    except ModelError as error:
        if error.code == "E103" and _runs(module, call):
            raise trace_error(module, error) from error.__cause__
        raise
    read = entries_read(found.program, module)
    if not read:
        kept = found.kept or Untouched(module)
        found.notes += [
            *drawn,
            *kept_between_calls(
                module,
                call,
                other_call,
                assigns=found.assigns,
                kept=kept,
                leaves_nothing=found.leaves_nothing,
            ),
        ]
        return found
    caches = find_caches(module, read, call, other_call)
    if caches.refilled:
        with caches.empty_caches(module):
            found = _with_axes(module, bound, axes, numbers)
    found.notes += [*drawn, *caches.notes()]
    return found


def _turned(leaf: Any) -> Any:
    """Return other values of a kind: those of an example, back to front."""
    if not hasattr(leaf, "shape"):
        return leaf
    turned = leaf.detach().flip(list(range(leaf.dim())))
    return turned * 0.75 if turned.is_floating_point() else turned


def _runs(module: Module, call: Callable[[], object]) -> bool:
    """Whether a model runs on the example inputs outside torch.export."""
    try:
        with dry_run(module), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception:  # the model's own code may raise anything
        return False
    return True


def _initialised(module: Module, call: Callable[[], object], options: LoadOptions) -> list[str]:
    """Give lazy layers their parameters, where the model is nobody else's; returns notes."""
    lazy = uninitialised(module)
    if not lazy:
        return []
    if not options.own:
        raise uninitialised_error(lazy)
    try:
        return [initialise(module, call)]
    except ModelError:
        raise
    except Exception as error:  # the model's own code may raise anything
        raise export_error(module, error) from error


def _with_axes(
    module: Module, bound: Arguments, axes: Mapping[str, tuple[int, ...]], numbers: bool
) -> Captured:
    """Export with dynamic axes, or without where the module insists on one size."""
    opened = axes

    def symbolic() -> Captured:
        nonlocal opened
        opened, notes = axes, []
        while True:
            traced = bound.repeated(opened)
            with sizes_decided() as decisions:
                found = _export(module, traced, opened, numbers)
            decided = _decided(found, module, traced, decisions)
            if decided is None:
                break
            why, closed = decided
            opened = {
                n: left
                for n, own in opened.items()
                if (left := tuple(a for a in own if (n, a) not in closed))
            }
            if not opened:
                raise Unfaithful(why)
            places = ", ".join(f"{bound.input_name(name)}:{axis}" for name, axis in sorted(closed))
            notes.append(f"static sizes of {places}: the model insists on {why}")
        found.examples = [array_of(as_real(t)) for t in bound.tensors.values()]
        found.notes += [*notes, *_join_batches(found, module, traced)]
        return found

    return choose_sizes(
        Sizes(
            module,
            fixed=lambda: _export(module, bound, {}, numbers),
            symbolic=symbolic if axes else None,
            constants=lambda found: [
                f"{bound.input_name(name)}:{axis}" for name, axis in _specialised(found, bound, opened)
            ],
        )
    )


def _decided(
    found: Captured, module: Module, bound: Arguments, decisions: Sequence[SizeDecision]
) -> tuple[str, set[tuple[str, int]]] | None:
    """Return for which sizes alone an export is the model, in words, and the axes; None where for all."""
    varying = _varying(found, bound)
    if not decisions or varying is None:
        return None
    axes = varying.axes
    differs = partial(_differs, found, module, bound, varying)
    decided = first_deviating(decisions, varying.environment, differs, open_sizes=frozenset(axes))
    if decided is None:
        return None
    symbols = decided.condition.free_symbols
    first = {symbol: own[0] for symbol, own in axes.items()}
    names = {symbol: f"{bound.input_name(name)}.shape[{axis}]" for symbol, (name, axis) in first.items()}
    asked = f", which {decided.place} asks" if decided.place else ""
    closed = {place for symbol in symbols for place in axes.get(symbol, ())}
    return f"sizes with `{decided.text(names)}`{asked}", closed


class _Varying(NamedTuple):
    """The sizes of a program's inputs that vary.

    Attributes:
        fakes: name of an input -> its fake tensor.
        environment: torch's, of their symbols.
        axes: symbol -> (name, axis) of the inputs that have it.
    """

    fakes: dict[str, Any]
    environment: Any
    axes: dict[Any, list[tuple[str, int]]]


def _varying(found: Captured, bound: Arguments) -> _Varying | None:
    """Return the sizes that vary; None where torch kept no environment."""
    placeholders = tensor_placeholders(found.program)
    fakes = {name: node.meta["val"] for name, node in zip(bound.tensors, placeholders, strict=True)}
    mode = next((m for fake in fakes.values() if (m := getattr(fake, "fake_mode", None))), None)
    if mode is None:
        return None
    axes: dict[Any, list[tuple[str, int]]] = {}
    for name, fake in fakes.items():
        for axis, size in enumerate(fake.shape):
            if is_symbolic(size):
                axes.setdefault(size.node.expr, []).append((name, axis))
    return _Varying(fakes, mode.shape_env, axes)


def _differs(
    found: Captured, module: Module, bound: Arguments, varying: _Varying, sizes: Mapping[Any, int]
) -> bool | None:
    """Whether a program is not its model at sizes; None where the model refuses them."""
    shapes = {name: shape_at(fake.shape, varying.environment, sizes) for name, fake in varying.fakes.items()}
    given = {n: repeated_to(t, s) for n, t in bound.tensors.items() if (s := shapes[n]) is not None}
    if len(given) < len(varying.fakes):
        return None
    return differs_from_program(module, found.program, bound, given)


def _join_batches(found: Captured, module: Module, bound: Arguments) -> list[str]:
    """Make the batches of two inputs one where the program is the model at equal sizes alone; return notes.

    A model may skip a mask of ones, of any size, in a branch on data that the example did not take.
    """
    varying = _varying(found, bound)
    if varying is None:
        return []
    batches = [(s, *own[0]) for s, own in varying.axes.items() if own[0][1] == 0 and s.is_Symbol]
    if len(batches) < 2 or _has_regions(found.program):  # torch compiles those, for one size after another
        return []
    example = {s: int(bound.tensors[n].shape[axis]) for s, own in varying.axes.items() for n, axis in own}
    first, name, _ = batches[0]
    notes: list[str] = []
    for symbol, other, _ in batches[1:]:
        if example[symbol] == example[first] and _differs(
            found, module, bound, varying, example | {symbol: 1}
        ):
            found.equal_sizes[symbol] = first
            mine, theirs = f"{bound.input_name(other)}:0", f"{bound.input_name(name)}:0"
            notes.append(f"the size of {mine} is that of {theirs}: the trace computes no other")
    return notes


def _has_regions(program: ExportedProgram) -> bool:
    """Whether a program has branches or loops."""
    from torch._ops import HigherOrderOperator

    return any(isinstance(node.target, HigherOrderOperator) for node in program.graph.nodes)


def require_runnable(captured: Captured) -> None:
    """Run a live module on the example: torch.export takes element types that the operators refuse.

    Raises:
        ModelError: E103 when the module raises.
    """
    if captured.module is not None:
        with dry_run(captured.module):
            _run(captured)


def assigned_values(captured: Captured) -> dict[str, np.ndarray]:
    """Return the values that a run on the example assigns to parameters and buffers, by name."""
    kept = captured.kept
    if captured.module is None or kept is None or not may_assign(kept.functions):
        return {}
    if captured.leaves_nothing():
        return {}
    with dry_run(captured.module, kept):
        found = assigned_by(captured.module, lambda: _run(captured))
    return {name: array_of(value) for name, value in found.items() if name not in captured.followed}


def _run(captured: Captured) -> None:
    if captured.module is None or captured.arrange is None:
        return
    args, keywords = captured.arrange([tensor_of(a) for a in captured.examples])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            captured.module(*args, **keywords)
    except Exception as error:  # the model's own code may raise anything
        raise export_error(captured.module, error) from error


def load_program(path: Path, *, trust: bool = False) -> Saved:
    """Load a saved ``.pt2`` program, which executes nothing that the file holds unless it is trusted.

    Args:
        path: the file.
        trust: whether torch may unpickle, import and evaluate what the file asks for.

    Raises:
        ModelError: when there is no such file, it is not an exported program, or it needs trust.
    """
    import torch
    from torch.utils import _pytree as pytree

    if not path.is_file():
        raise missing_file(path)
    if not trust:
        return read_program(path)
    try:
        with (
            warnings.catch_warnings(),
            unlogged("torch.export"),
            unlogged("torch._export.serde.serialize"),
        ):
            warnings.simplefilter("ignore")
            program = torch.export.load(str(path))
    except Exception as error:  # torch raises many kinds for a damaged archive, and the file's code any
        raise ModelError(
            "E101",
            f"expected an exported program, got a file that torch.export.load refuses: {first_line(error)}",
            place=str(path),
            hint="write it with torch.export.save(program, file); give a pickled module as file.py:Name",
        ) from error
    leaves = pytree.tree_leaves(program.example_inputs) if program.example_inputs else []
    return Saved(program, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])


def _specialised(
    found: Captured, bound: Arguments, axes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, int]]:
    """Yield the dynamic axes that the export made constants of."""
    fakes = [node.meta["val"] for node in tensor_placeholders(found.program)]
    for name, fake in zip(bound.tensors, fakes, strict=True):
        for axis in axes.get(name, ()):
            size = fake.shape[axis]
            if not is_symbolic(size):
                yield name, axis


# -- the export ----------------------------------------------------------------------------------------


def _export(module: Module, bound: Arguments, axes: Mapping[str, tuple[int, ...]], numbers: bool) -> Captured:
    import torch

    # new tensors each time: torch marks those it is given as dynamic, and would find the marks again
    args, kwargs = bound.built(lambda _, leaf: leaf.detach() if hasattr(leaf, "shape") else leaf)

    def spec(name: str, _: object) -> dict[int, Any] | None:
        return dict.fromkeys(axes[name], torch.export.Dim.AUTO) if name in axes else None

    dynamic = bound.by_parameter(spec) if axes else None
    calls: list[tuple[tuple[str, ...], Module | None]] = []
    assigns = False

    def export() -> ExportedProgram:
        nonlocal assigns
        for stand_ins in (True, False):
            calls.clear()
            assigned.clear()
            repetition = Repetition(module, calls, stand_ins)
            found = None
            with repetition.repeating(), structure_kept(module, state) as before:
                try:
                    found = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
                except Exception:
                    if repetition.is_whole:  # else the fault is ours
                        raise
            assigns = before.has_changed or repetition.has_assigned()
            drawn = repetition.count > 0 and repetition.takes_back_draws()
            if found is None or drawn or (repetition.count and (before.has_changed or assigned.names)):
                break
            if repetition.spells_out(found):
                return without_new_buffers(without_vmap(found))
        calls.clear()
        assigned.clear()
        with structure_kept(module, state):  # what one trace has left in a cache is nothing to the next
            found = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
        return without_new_buffers(without_vmap(found))

    with (
        evaluation(module) as state,
        spelled_out(module, bound.further),
        layers_kept_whole(),
        _stand_ins(module),
        wrapped_alone(),
        lean_tracing(module),
        unused_constants(),
        idle_moves(),
        registered_members(),
        products_by_example(),
        own_gradients() as own,
        data_assigned(module, state.functions) as assigned,
        marked_casts(),
        _recorded(calls),
        _opened(module),
        silent(),
    ):
        try:
            traced = trace(export, module, numbers=numbers)
        except Exception as error:  # the model's own code and torch.export may raise anything
            raise export_error(module, error) from error
    program = traced.program
    assumed, sides = sides_left_out(traced.asked, module, program, bound)
    assumed += traced.notes
    notes = [
        *assumed,
        *sides,
        *(f"the argument `{name}` is `{value!r}` in the graph" for name, value in bound.constants.items()),
        *(f"the gradient that `{name}` (a torch.autograd.Function) writes itself is lost" for name in own),
        *(
            f"no gradient passes `.data` as it is assigned at {place}; the model's own passes it unchanged"
            for place in assigned.places
        ),
    ]
    kept = Untouched(module, state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        look = training_differences(module, args, kwargs, kept)
    state_momenta(module, program, look.idle)

    @cache
    def calls_leave_nothing() -> bool:
        if look.leaves_nothing is not None:
            return look.leaves_nothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return leaves_nothing(module, args, kwargs, kept)

    return Captured(
        program,
        module,
        [array_of(as_real(t)) for t in bound.tensors.values()],
        calls,
        [*notes, *look.notes],
        bound.arrange,
        idle_dropouts(program, look.idle),
        assumed,
        kept,
        assigns,
        leaves_nothing=calls_leave_nothing,
        followed=assigned.names,
        only_trained=look.only_trained,
    )


@contextmanager
def _stand_ins(module: Module) -> Iterator[None]:
    """Put what an export can follow in the place of packed sequences and quantised tensors, inside."""
    from ..expansions.packed_sequences import sequences_padded
    from ..quantised.layers import quantised_layers

    with sequences_padded(), quantised_layers(module):
        yield


@contextmanager
def _recorded(calls: list[tuple[tuple[str, ...], Module | None]]) -> Iterator[None]:
    """Record every module call of an export, those without any operator included.

    What dynamo traces by itself, the bodies of control flow, it traces without this: it cannot follow a hook.
    """
    from torch.compiler import is_dynamo_compiling
    from torch.fx.experimental.proxy_tensor import get_proxy_mode
    from torch.nn.modules.module import register_module_forward_pre_hook

    def record(module: Module, _args: object) -> None:
        if is_dynamo_compiling():
            return
        mode = get_proxy_mode()
        stack = getattr(getattr(mode, "tracer", None), "module_stack", None)
        if stack:
            base = getattr(type(module), "get_base", None)
            keys = normalised_stack(stack)
            if keys and (not calls or calls[-1][0] != keys):
                calls.append((keys, module if base is None else base(module)))

    handle = register_module_forward_pre_hook(record)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _opened(module: Module) -> Iterator[None]:
    """Open the containers in the module's results for torch, inside the block."""
    handle = module.register_forward_hook(lambda _module, _given, result: open_containers(result))
    try:
        yield
    finally:
        handle.remove()


def example_arrays(saved: Saved, inputs: NamedArrays, path: str) -> list[np.ndarray]:
    """Return a saved program's example inputs in order: given ones, else its own; none without any.

    Raises:
        ModelError: when their number, shapes or element types do not fit the program.
    """
    fakes = [(node.name, node.meta["val"]) for node in tensor_placeholders(saved.program)]
    given = [array for _, array in inputs if array is not None]
    own = not given and saved.examples is not None
    if own:
        given = [array_of(as_real(example)) for example in saved.examples or ()]
    elif not given:
        return []
    if len(given) != len(fakes):
        if own:
            raise ModelError(
                "E101", f"expected {len(fakes)} example inputs in the file, got {len(given)}", place=path
            )
        raise ModelError(
            "E103", f"expected {len(fakes)} inputs ({', '.join(n for n, _ in fakes)}), got {len(given)}"
        )
    for (name, fake), array in zip(fakes, given, strict=True):
        array = array_of(as_real(tensor_of(array)))
        dtype, shape = fake.dtype, list(fake.shape)
        if dtype.is_complex:
            dtype, shape = dtype.to_real(), [*shape, 2]
        fits = len(array.shape) == len(shape) and all(
            not isinstance(want, int) or want == got for want, got in zip(shape, array.shape, strict=True)
        )
        if not fits or str(dtype).removeprefix("torch.") != array.dtype.name:
            wanted = f"{str(dtype).removeprefix('torch.')}{[str(s) for s in shape]}"
            message = f"expected `{name}` as {wanted}, got {array.dtype}{list(array.shape)}"
            raise ModelError("E101", message, place=path) if own else ModelError("E103", message)
    return given
