"""Gives a Cell the values of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir import TensorData, UsageError
from ..given_values import fit_values, with_names_of
from ..options import LoadOptions


def with_values(
    cell: Any, given: Mapping[str, TensorData], *, own: bool, options: LoadOptions | None = None
) -> Any:
    """Return a Cell with a file's values for all its parameters.

    Args:
        cell: a Cell.
        given: name -> tensor.
        own: whether the Cell was made for this call; another is not changed, and a Cell cannot be copied.
        options: how the file's names become the Cell's; as they are without.

    Raises:
        UsageError: for a Cell of the caller's.
        ModelError: when the names or shapes do not fit (E801).
    """
    if not own:
        raise UsageError(
            "E001",
            "expected the name of a Cell with `params`, got a Cell",
            hint="mindspore.load_checkpoint(FILE, net) loads the values first",
        )
    import mindspore

    held = {p.name: p for p in cell.get_parameters()}
    dtypes = {name: str(p.dtype).lower() for name, p in held.items()}
    wanted = {name: tuple(p.shape) for name, p in held.items()}
    fitting = fit_values(wanted, with_names_of(wanted, given, options), dtypes=dtypes)
    for name, data in fitting.items():
        value = mindspore.Tensor(data.numpy())
        held[name].set_data(value.astype(held[name].dtype) if value.dtype != held[name].dtype else value)
    return cell
