"""One of several sets of tensors in a file, by what their names begin with."""

from __future__ import annotations

from pathlib import Path

from ..ir import ModelError, TensorData


def part_of(tensors: dict[str, TensorData], part: str | None, path: Path) -> dict[str, TensorData]:
    """Return the tensors whose names begin with a part, without it; all of them where there is none.

    Raises:
        ModelError: E801 when no name begins so.
    """
    if part is None:
        return tensors
    head = f"{part.rstrip('.')}."
    found = {name.removeprefix(head): data for name, data in tensors.items() if name.startswith(head)}
    if not found:
        heads = list(dict.fromkeys(f"`{name.partition('.')[0]}`" for name in tensors if "." in name))
        more = ", …" if len(heads) > _SHOWN else ""
        raise ModelError(
            "E801",
            f"expected tensors under `{part}`, got none",
            place=str(path),
            hint=f"names begin with {', '.join(heads[:_SHOWN])}{more}" if heads else "",
        )
    return found


_SHOWN = 8
