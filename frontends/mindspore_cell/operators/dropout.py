"""Dropout functions that a Cell calls itself: ``ops.dropout(x, 0.3, self.training)`` is kept as it is."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
_TRAINING = 2
"""Position of their argument `training`."""

TABLE = LoweringTable[Call]("MindSpore")


@cache
def drops_in_training_only(kind: Any) -> bool:
    """Whether all that a Cell's `construct` reads `self.training` for is to drop.

    Then what it compiles to with `training` set is what it computes in both modes, but for what it drops.

    Args:
        kind: the Cell's class.
    """
    if kind.__module__.partition(".")[0] == "mindspore":
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.construct)))
    except (OSError, TypeError, SyntaxError):  # no source at hand
        return False
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n.func) in _FUNCTIONS]
    given = [_training(call) for call in calls]
    read = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "training"]
    return (
        bool(calls) and all(map(_is_own_training, given)) and {id(n) for n in read} == {id(n) for n in given}
    )


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _training(call: ast.Call) -> ast.expr | None:
    """Return the `training` argument of a dropout function's call."""
    named = next((k.value for k in call.keywords if k.arg == "training"), None)
    return call.args[_TRAINING] if named is None and len(call.args) > _TRAINING else named


def _is_own_training(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "training"
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _require_training_only(call: Call) -> None:
    if not drops_in_training_only(type(call.cell)):
        raise call.unsupported(
            "expected `training=self.training`, got a dropout that is active in evaluation too"
        )


@TABLE.op("Dropout")
def dropout(call: Call) -> Any:
    """Elements dropped; the second result, what was kept, is nothing that inference has."""
    _require_training_only(call)
    call.ignore(2, 3)  # the seeds
    call.ignore("random_cache", "side_effect_hidden", "keep_prob", "Seed0", "Seed1")
    ratio = 1 - call.float(1)
    return call.op("Dropout", call.value(0), call.constant(np.float32(ratio), "float32")), None


@TABLE.op("Dropout2D", "Dropout3D")
def channel_dropout(call: Call) -> Any:
    """Whole channels dropped."""
    _require_training_only(call)
    value: Value = call.value(0)
    kept = call.arg("keep_prob")
    if not isinstance(kept, float):
        raise call.unsupported(f"expected a constant probability, got `{kept!r}`")
    return call.op("regraft.FeatureDropout", value, ratio=1 - kept), None
