"""MindSpore's names for the state that optimizers save beside the parameters."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from ..ir import TensorData

_SLOTS = (
    *("moment1", "moment2", "vhat", "adam_m", "adam_v", "lamb_m", "lamb_v", "moments", "accum", "stat"),
    *("mean_square", "mean_grad", "moment", "linear", "accum_update", "prev", "step_size", "ax_"),
    *("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "average",
)
"""Prefixes of MindSpore's optimizers (`nn`, `experimental`, `mint`), and of the averages of train.py."""

_SLOT = re.compile(rf"^((?:{'|'.join(_SLOTS)})\.|mu_|eta_)(?=.)")
_GLOBALS = re.compile(
    r"^(global_step|learning_rate(_group_\d+)?|beta[12]_power|momentum|state_step|step_t|fake_(lr|param)"
    r"|scale_sense|current_iterator_step|last_overflow_iterator_step|(cur_)?(epoch|step)(_num)?"
    r"|lr|loss|updates)$"
)
"""Names that an optimizer, a loss scale or a callback saves once."""


def slot_of(name: str, parameters: Container[str]) -> tuple[str, str] | None:
    """Return (prefix, the parameter's name) of an optimizer's slot; None for anything else.

    Example:
        >>> slot_of("moment1.0.weight", {"0.weight"}), slot_of("accum.weight", {"accum.weight"})
        (('moment1.', '0.weight'), None)
    """
    found = _SLOT.match(name)
    if found is None or name[found.end() :] not in parameters:
        return None
    return found[1], name[found.end() :]


def slot_in(name: str, tensors: Mapping[str, TensorData]) -> tuple[str, str] | None:
    """Find the slot of a checkpoint's tensor by `slot_of`; it has its parameter's shape, or one number."""
    slot = slot_of(name, tensors.keys())
    return slot if slot is not None and tensors[name].shape in (tensors[slot[1]].shape, ()) else None


def optimizer_names(tensors: Mapping[str, TensorData]) -> set[str]:
    """Return the names of an optimizer's slots in a checkpoint and, if any, of its single values."""
    slots = {name for name in tensors if slot_in(name, tensors) is not None}
    return slots | {name for name in tensors if is_global(name)} if slots else set()


def without_globals(
    tensors: Mapping[str, TensorData], wanted: Container[str], notes: list[str]
) -> Mapping[str, TensorData]:
    """Return the tensors of a net, without single numbers of its training that the net has no parameter for.

    Args:
        tensors: by name.
        wanted: names of the net's parameters.
        notes: gets a sentence of what is left out.
    """
    found = [
        n for n, data in tensors.items() if is_global(n) and n not in wanted and data.shape in ((), (1,))
    ]
    if found:
        notes.append(f"not of the net, so not carried over: {', '.join(f'`{n}`' for n in found)}")
    return {name: data for name, data in tensors.items() if name not in found} if found else tensors


def is_global(name: str) -> bool:
    """Whether an optimizer or a callback saves this name once for all parameters."""
    return _GLOBALS.match(name) is not None
