"""Fitting the caller's example inputs to the inputs of a symbol."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formats.params_file import DTYPES
from ...ir import ModelError
from ...ir.outside.names import near_names
from ..inputs import InputSpec
from .attributes import literal
from .reader import SymbolNode
from .variables import Variables


def bind(
    inputs: Sequence[tuple[str, np.ndarray | None]],
    variables: Variables,
    notes: list[str],
    *,
    narrow: bool = False,
) -> dict[str, np.ndarray]:
    """Return the example of every input by name, in the symbol's order.

    Args:
        inputs: what the caller gave, by name or by position; labels may be given and are not needed.
        variables: the symbol's.
        notes: said of examples that are not taken as they are is added here.
        narrow: whether examples of float64 become float32, which is what the parameters are.

    Raises:
        ModelError: E103 for a name that the symbol does not have, or an input whose shape nothing tells.
    """
    wanted = {n.name: n for n in variables.inputs.values()}
    labels = {n.name for n in variables.labels.values()}
    known = list(wanted)
    given: dict[str, np.ndarray] = {}
    positional = 0
    for name, array in inputs:
        if not name:
            if positional >= len(known):
                raise ModelError(
                    "E103", f"expected at most {len(known)} inputs ({', '.join(known)}), got {len(inputs)}"
                )
            name = known[positional]
            positional += 1
        if name not in wanted and name not in labels:
            near = near_names(name, known, 1)
            raise ModelError(
                "E103",
                f"expected an input among {', '.join(known) or 'none'}, got `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else "",
            )
        if name in given:
            raise ModelError("E103", f"expected the input `{name}` once, got it twice")
        if array is not None:
            given[name] = array
    missing = [n for n in known if n not in given and _declared_shape(wanted[n]) is None]
    if missing:
        raise ModelError(
            "E103",
            f"expected the shape of {', '.join(f'`{n}`' for n in missing)}, got none",
            hint=f"give {' '.join(f'--input {n}=2x3x224x224' for n in missing)} with the shape it has",
        )
    found = {n: given[n] if n in given else _example(node, i) for i, (n, node) in enumerate(wanted.items())}
    wide = [n for n, a in found.items() if a.dtype == np.float64 and declared_dtype(wanted[n]) != "float64"]
    if narrow and wide:
        names = ", ".join(f"`{n}`" for n in wide)
        notes.append(f"{names}: float64 examples are converted to float32, the type of the parameters")
        found |= {n: found[n].astype(np.float32) for n in wide}
    return found


def declared_dtype(node: SymbolNode) -> str | None:
    """Return the element type that a variable states, or None."""
    flag = node.hidden.get("__dtype__", "")
    return {str(number): name for number, name in enumerate(DTYPES)}.get(flag)


_EXAMPLE_BATCH = 2  # where the file leaves only the batch open, with a 0


def declared_sizes(node: SymbolNode) -> tuple[int, ...] | None:
    """Return the shape that a variable states, or None where it states none or leaves a size open."""
    shape = _stated_shape(node)
    return shape if shape is not None and all(d > 0 for d in shape) else None


def _stated_shape(node: SymbolNode) -> tuple[int, ...] | None:
    try:
        shape = literal(node.hidden.get("__shape__", "None"))
    except ValueError:
        return None
    if not isinstance(shape, (tuple, list)) or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(shape)


def _declared_shape(node: SymbolNode) -> tuple[int, ...] | None:
    shape = _stated_shape(node)
    if shape is None:
        return None
    sizes = (_EXAMPLE_BATCH, *shape[1:]) if shape and shape[0] == 0 else shape
    return sizes if all(d > 0 for d in sizes) else None


def _example(node: SymbolNode, seed: int) -> np.ndarray:
    shape = _declared_shape(node)
    assert shape is not None, node
    return InputSpec(node.name, shape, declared_dtype(node) or "float32").array(seed)
