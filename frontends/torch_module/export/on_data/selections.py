"""Code that selects elements by data, traced as if it always selected some.

A detector asks whether any box is left, and computes on when there is one. What it computes then it computes
for none as well, operator by operator; the branch for none is left out, and a note names it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ..export_errors import user_location
from ..patches import original, patched
from .boxes import boxes_together

if TYPE_CHECKING:
    import sympy

_HOME = "torch.fx.experimental.symbolic_shapes:ShapeEnv"


@contextmanager
def some_selected() -> Iterator[list[str]]:
    """Trace as if every selection by data had elements; yields what there will be to say of it."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    notes: list[str] = []
    evaluate = original(_HOME, "_evaluate_expr")

    def decide(self: Any, asked: sympy.Basic, *args: Any, **keywords: Any) -> Any:
        try:
            return evaluate(self, asked, *args, **keywords)
        except GuardOnDataDependentSymNode:
            answer = _of_some(self, asked)
            if answer is None:
                raise
            note = _note(user_location(traceback.extract_stack()))
            if note not in notes:
                notes.append(note)
            return answer

    with ExitStack() as stack:
        stack.enter_context(patched(_HOME, _evaluate_expr=decide))
        stack.enter_context(boxes_together())
        yield notes


def asks_for_none(error: BaseException) -> bool:
    """Whether an export failed because the model's code asks if a selection by data has elements."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    asked = getattr(error, "cond", None) if isinstance(error, GuardOnDataDependentSymNode) else None
    return asked is not None and _answer(asked) is not None


def _of_some(environment: Any, asked: sympy.Basic) -> sympy.Basic | None:
    """Return whether a condition holds of selections with elements; None where it asks for more than that."""
    import sympy

    answer = None if asked.free_symbols - environment.size_like else _answer(asked)
    return None if answer is None else sympy.sympify(answer)


def _answer(asked: sympy.Basic) -> bool | None:
    """Return whether a condition holds of numbers above 0; None where that does not decide it."""
    import sympy

    answers = {
        (sympy.Eq, 0): False, (sympy.Ne, 0): True, (sympy.Gt, 0): True, (sympy.Le, 0): False,
        (sympy.Lt, 1): False, (sympy.Ge, 1): True,
    }  # fmt: skip
    if not isinstance(asked, sympy.core.relational.Relational):
        return None
    relation: Any = asked if asked.lhs.free_symbols else asked.reversed
    if relation.lhs.is_nonnegative is False or not relation.rhs.is_Integer:
        return None
    return answers.get((type(relation), int(relation.rhs)))


def _note(place: str) -> str:
    return (
        f"the branch at {place} for a selection by data without elements is left out: regraft assumes that "
        "the model computes for none what its other code does"
    )
