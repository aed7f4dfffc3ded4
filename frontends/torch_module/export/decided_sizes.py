"""Branches on sizes, which a trace takes as the example's sizes have it: found, and tried at other sizes.

torch.export states what the example decided as guards, which nothing keeps with the program. Many change no
value (another form of the same sum), others refuse sizes that the model refuses too. What is left is told
apart by running both at sizes for which the condition is another.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..nodes import IGNORED
from .evaluation_mode import dry_run
from .export_errors import user_location
from .patches import original, patched

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

    from .example_arguments import Arguments

Sizes = Mapping[Any, int]
"""A size for each of torch's symbols."""

_HOME = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_TRIES = 3  # sizes tried for one condition, where the model refuses them
_RUNS = 16  # sizes tried for one model, most of which it refuses at once


@dataclass(frozen=True, slots=True)
class SizeDecision:
    """A condition on sizes that the example's sizes decided.

    Attributes:
        condition: of torch's symbols; it holds for the example.
        place: file and line of the model's code that asked; empty where torch asked for its own sake.
    """

    condition: sympy.Basic
    place: str

    def text(self, names: Mapping[Any, str] = MappingProxyType({})) -> str:
        """Return the condition in Python's spelling, with these names of symbols."""
        import sympy
        from torch.utils._sympy.printers import PythonPrinter

        named = {s: sympy.Symbol(name, integer=True) for s, name in names.items()}
        return str(PythonPrinter().doprint(self.condition.xreplace(named)))


@contextmanager
def sizes_decided() -> Iterator[list[SizeDecision]]:
    """Yield what sizes of the example will have decided while the block runs."""
    import sympy

    found: list[SizeDecision] = []
    seen: set[Any] = set()
    check = original(_HOME, "_check_frozen")

    def record(self: Any, asked: sympy.Basic, value: sympy.Basic) -> None:
        answers: dict[Any, Callable[[], Any]] = {
            sympy.true: lambda: asked,
            sympy.false: lambda: sympy.Not(asked),
        }
        condition = answers.get(value, lambda: sympy.Eq(asked, value))()
        if condition not in seen:
            seen.add(condition)
            frames = traceback.StackSummary.extract(
                traceback.walk_stack(sys._getframe(1)), lookup_lines=False
            )
            found.append(SizeDecision(condition, user_location(frames[::-1])))
        check(self, asked, value)

    with patched(_HOME, _check_frozen=record):
        yield found


def _sizes_of_example(environment: Any) -> dict[Any, int]:
    """Return the sizes that torch's symbols have in the example."""
    known = getattr(environment, "backed_var_to_val", None)
    return {s: int(v) for s, v in (environment.var_to_val if known is None else known).items()}


def first_deviating(
    decisions: Iterable[SizeDecision],
    environment: Any,
    differs: Callable[[Sizes], bool | None],
    *,
    open_sizes: frozenset[Any] | None = None,
) -> SizeDecision | None:
    """Return the first condition that decided values; None where none did.

    Args:
        decisions: the conditions.
        environment: torch's, of their symbols.
        differs: whether a trace and what was traced give different results at given sizes; None where what
            was traced refuses them. It is asked first for the sizes of the example.
        open_sizes: the symbols that may have other sizes; None for all.
    """
    example = _sizes_of_example(environment)
    equal: list[Sizes] = []
    runs = 0
    for decision in decisions:
        condition = replaced(decision.condition, environment)
        symbols = condition.free_symbols
        if not symbols or not symbols <= example.keys():
            continue
        if open_sizes is not None and not symbols & open_sizes:
            continue
        if any(_fails(condition, sizes) for sizes in equal):
            continue
        if not runs and differs(example) is not False:
            return None  # what draws random numbers, or takes some values only, is compared in no way
        runs += 1
        varied = sorted(symbols if open_sizes is None else symbols & open_sizes, key=str)
        for sizes in islice(_contradicting(condition, varied, example), _TRIES):
            runs += 1
            if runs > _RUNS:
                return None
            found = differs(sizes)
            if found:
                return SizeDecision(condition, decision.place)
            if found is False:
                equal.append(sizes)
                break
    return None


def replaced(condition: Any, environment: Any) -> Any:
    """Return a condition of the symbols that are left: some were found to be others, or numbers."""
    for _ in range(8):
        new = condition.xreplace(environment.replacements)
        if new == condition:
            break
        condition = new
    return condition


def _contradicting(condition: Any, symbols: Sequence[Any], example: Sizes) -> Iterator[dict[Any, int]]:
    """Yield sizes for which a condition does not hold, those near the example's first."""
    bounds = {int(n) for n in condition.atoms() if getattr(n, "is_Integer", False) and 0 < n < 1 << 16}
    near = {m for n in bounds for m in (n - 1, n, n + 1)} | {1, 2, 3, 4, 5}
    choices = {}
    for symbol in symbols:
        own = example[symbol]
        sizes = {n for n in near | {own - 1, own, own + 1, own * 2, own * 2 + 1} if n > 0}
        choices[symbol] = sorted(sizes, key=lambda n, own=own: (n == 1, abs(n - own)))[:24]
    alone = ({**example, s: n} for s in symbols for n in choices[s])
    together = (
        {**example, **dict(zip(symbols, chosen, strict=True))}
        for chosen in product(*(choices[s][:12] for s in symbols[:3]), *([example[s]] for s in symbols[3:]))
    )
    seen: set[tuple[int, ...]] = set()
    for sizes in (*alone, *(together if len(symbols) > 1 else ())):
        key = tuple(sizes[s] for s in symbols)
        if key not in seen and _fails(condition, sizes):
            seen.add(key)
            yield sizes


def _fails(condition: Any, sizes: Sizes) -> bool:
    """Whether a condition does not hold at given sizes."""
    import sympy

    try:
        return condition.xreplace(dict(sizes)) is sympy.false
    except ZeroDivisionError:  # the program never asks it there
        return False


def shape_at(shape: Iterable[Any], environment: Any, sizes: Sizes) -> list[int] | None:
    """Return a shape of symbols at given sizes; None where some size is none."""
    found = []
    for size in shape:
        node = getattr(size, "node", None)
        value = size if node is None else replaced(node.expr, environment).xreplace(dict(sizes))
        if not getattr(value, "is_Integer", isinstance(value, int)) or int(value) < 0:
            return None
        found.append(int(value))
    return found


def repeated_to(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor cut to a shape, or its elements once more where an axis is longer."""
    import torch

    for axis, size in enumerate(shape):
        if tensor.shape[axis] != size:
            tensor = tensor.index_select(axis, torch.arange(size) % max(tensor.shape[axis], 1))
    return tensor


def differ(first: Any, second: Any) -> bool:
    """Whether results differ beyond what rounding makes of another order of a sum; None is no elements."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = [[x for x in pytree.tree_leaves(r) if x is None or hasattr(x, "shape")] for r in (first, second)]
    if len(leaves[0]) != len(leaves[1]):
        return True
    for a, b in zip(*leaves, strict=True):
        if a is None or b is None:
            if any(x is not None and x.numel() for x in (a, b)):
                return True
            continue
        if a.shape != b.shape:
            return True
        wide = torch.complex128 if a.is_complex() else torch.float64
        a, b = a.to(wide), b.to(wide)
        scale = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
        if not torch.allclose(a, b, rtol=1e-2, atol=1e-3 * max(scale, 1e-6), equal_nan=True):
            return True
    return False


def differs_from_program(
    module: Module,
    program: ExportedProgram,
    bound: Arguments,
    given: Mapping[str, torch.Tensor],
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> bool | None:
    """Whether a module and its program give different results on tensors; None where the module refuses.

    Args:
        module: the module, in evaluation mode for the call; it stays as it is.
        program: what was exported of it.
        bound: the arguments of the export.
        given: the tensors to run both on, by name.
        within: gives the block for each of both runs.
    """
    try:
        with _alike(module), within():
            args, kwargs = _arguments(bound, given)
            wanted = module(*args, **kwargs)
    except Exception:  # the model may refuse sizes in any way
        return None
    try:
        return differ(wanted, run_program(module, program, bound, given, within))
    except Exception:  # what was traced for other sizes may fail in any way
        return True


def run_program(
    module: Module,
    program: ExportedProgram,
    bound: Arguments,
    given: Mapping[str, torch.Tensor],
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
    see: Callable[[Node, Any], None] = lambda _node, _value: None,
) -> Sequence[Any]:
    """Return the results of a program node by node; the largest of no numbers is the least one.

    Args:
        module: what it was exported of, which stays as it is.
        program: the program.
        bound: the arguments of the export.
        given: the tensors to run it on, by name.
        within: gives the block of the run.
        see: is given each node and its value.
    """
    import torch
    from torch.utils import _pytree as pytree

    class Interpreter(torch.fx.Interpreter):
        def run_node(self, n: Node) -> Any:
            found = super().run_node(n)
            see(n, found)
            return found

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if str(target) in IGNORED:  # the graph has no checks
                return None
            least = _LEAST.get(str(target))
            if least is not None and not args[0].numel() and args[0].is_floating_point():
                return args[0].new_full((), least)
            return super().call_function(target, args, kwargs)

    with _alike(module), within():
        leaves = iter(pytree.tree_leaves(_arguments(bound, given)))
        held = {**program.constants, **program.state_dict}
        specs = program.graph_signature.input_specs  # torch's own call checks sizes, and refuses these
        flat = [
            next(leaves) if spec.kind.name == "USER_INPUT" else held.get(spec.target or "") for spec in specs
        ]
        results = Interpreter(program.graph_module).run(*flat)
    return results[len(results) - len(program.graph_signature.user_outputs) :]


_LEAST = {"aten.max.default": -float("inf"), "aten.min.default": float("inf")}
"""Operator -> its result of no numbers in the graph, which torch refuses."""


@contextmanager
def _alike(module: Module) -> Iterator[None]:
    """Run a module or its program without a trace, both with the same random numbers."""
    import torch

    with dry_run(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield


def _arguments(bound: Arguments, given: Mapping[str, torch.Tensor]) -> Any:
    return bound.built(lambda n, leaf: given[n].detach().clone() if n in given else leaf)
