"""Code that selects elements by data, traced as if it always selected many.

A detector asks whether any box is left, or more than it may keep. What it computes on for many it mostly
computes for few as well, operator by operator; `sizes_of_selections` runs both to find out.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from ..export_errors import names_sizes, selecting_module, user_location
from ..patches import original, patched
from .boxes import boxes_together

if TYPE_CHECKING:
    import sympy
    from torch.nn import Module

_HOME = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_MANY = 1 << 30
"""A size that stands for many elements in every condition."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition on how many elements data select, with the answer that the trace assumes.

    Attributes:
        condition: of torch's symbols.
        answer: whether the trace goes on as if it holds.
        place: file and line of the model's code that asked.
        environment: torch's, of the symbols.
        selecting: the module that was selecting boxes then; empty for none.
    """

    condition: sympy.Basic
    answer: bool
    place: str
    environment: Any
    selecting: str = ""

    @property
    def of_none(self) -> bool:
        """Whether one element or more have this answer, so that the other one is that of none."""
        return all(_holds(self.condition, n) is self.answer for n in (1, 2, 3, _MANY))


@contextmanager
def many_selected(module: Module) -> Iterator[list[Asked]]:
    """Trace a model as if every selection by data had many elements; yields the conditions answered so."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    found: list[Asked] = []
    evaluate = original(_HOME, "_evaluate_expr")

    def decide(self: Any, asked: sympy.Basic, *args: Any, **keywords: Any) -> Any:
        import sympy

        try:
            return evaluate(self, asked, *args, **keywords)
        except GuardOnDataDependentSymNode:
            answer = None if asked.free_symbols - self.size_like else of_many(asked)
            if answer is None:
                raise
            place = user_location(traceback.extract_stack())
            frames = (frame for frame, _ in reversed(list(traceback.walk_stack(None))))
            condition = Asked(asked, answer, place, self, selecting_module(module, frames))
            if condition not in found:
                found.append(condition)
            return sympy.sympify(answer)

    with ExitStack() as stack:
        stack.enter_context(patched(_HOME, _evaluate_expr=decide))
        stack.enter_context(boxes_together())
        yield found


def asks_for_size(error: BaseException) -> bool:
    """Whether an export failed because the model's code asks how many elements a selection by data has.

    It asks by a condition, or by `len`, which Python wants as a number.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    asked = getattr(error, "cond", None) if isinstance(error, GuardOnDataDependentSymNode) else None
    if asked is None or not names_sizes(error):
        return False
    return asked.is_Symbol or of_many(asked) is not None


def of_many(asked: sympy.Basic) -> bool | None:
    """Return whether a condition holds of large numbers; None where it depends on which, or their order."""
    import sympy

    if not isinstance(asked, sympy.core.relational.Relational):
        return None
    symbols = sorted(asked.free_symbols, key=str)
    sizes = [_MANY + step for step in range(len(symbols) + 1)]
    orders = [*permutations(sizes, len(symbols))][:24] + [(n,) * len(symbols) for n in sizes]
    answers = {asked.xreplace(dict(zip(symbols, map(sympy.Integer, order), strict=True))) for order in orders}
    return answers == {sympy.true} if answers in ({sympy.true}, {sympy.false}) else None


def _holds(condition: sympy.Basic, size: int) -> bool:
    """Whether a condition holds where all its symbols have one size."""
    import sympy

    return condition.xreplace(dict.fromkeys(condition.free_symbols, sympy.Integer(size))) is sympy.true


def size_for_other(condition: sympy.Basic, answer: bool) -> int | None:
    """Return a small size of selections for which a condition has another answer; None where none is found.

    It is one of more than a few elements if there is such, since code for none may come first.
    """
    import sympy

    numbers = {int(n) for n in condition.atoms(sympy.Integer)}
    near = {n + step for n in numbers for step in (-1, 0, 1)} | set(range(_FEW + 1))
    fitting = sorted(n for n in near if n >= 0 and _holds(condition, n) is not answer)
    few = [n for n in fitting if n <= _FEW]
    return few[-1] if few else next(iter(fitting), None)


_FEW = 16
