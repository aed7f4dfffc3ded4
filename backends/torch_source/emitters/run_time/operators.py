"""Operators whose settings a run computes; the family files have them with settings that are known.

An emitter here is asked where that of the family refuses.
"""

from __future__ import annotations

from ....source.emitters.settings import number, number_or, numbers
from ....source.emitting import EmitterTable, Expression, View
from ....source.expressions import Helper, call, method
from ..resize import resized
from ..shape import padded

TABLE = EmitterTable()


def _given(view: View, *slots: int) -> list[object]:
    """Return operands as numbers, None for those that are absent; the last are left out where they are."""
    found: list[object] = [numbers(view, slot) if view.has(slot) else None for slot in slots]
    while found and found[-1] is None:
        found.pop()
    return found


@TABLE.call("Slice")
def slice_(view: View) -> Expression:
    """Emit ``sliced(x, starts, ends, axes, steps)``."""
    return call(Helper("sliced"), view.tensor(0), *_given(view, 1, 2, 3, 4))


@TABLE.call("Pad")
def pad(view: View) -> Expression:
    """Emit ``padded(x, numbers(pads), "constant")``."""
    return padded(view)


@TABLE.call("Unsqueeze")
def unsqueeze(view: View) -> Expression:
    """Emit ``unsqueezed(x, numbers(axes))``."""
    return call(Helper("unsqueezed"), view.tensor(0), numbers(view, 1))


@TABLE.call("Squeeze")
def squeeze(view: View) -> Expression:
    """Emit ``x.squeeze(numbers(axes))``."""
    return method(view.atom(), "squeeze", numbers(view, 1))


@TABLE.call("Split")
def split(view: View) -> Expression:
    """Emit ``x.split(numbers(sizes), dim=axis)``."""
    found = method(view.atom(), "split", numbers(view, 1), dim=view.operator.int("axis"))
    return Expression(found.parts, outputs=len(view.operator.types))


@TABLE.call("AffineGrid")
def affine_grid(view: View) -> Expression:
    """Emit ``F.affine_grid(theta, numbers(size))``."""
    aligned = bool(view.operator.int("align_corners"))
    return call("F.affine_grid", view.tensor(0), numbers(view, 1), align_corners=aligned)


@TABLE.call("DFT")
def fourier(view: View) -> Expression:
    """Emit ``fourier(x, length, int(axis))``."""
    length = number(view, 1) if view.has(1) else None
    axis = number(view, 2) if view.has(2) else None
    flags = {name: True for name in ("inverse", "onesided") if view.operator.int(name)}
    return call(Helper("fourier"), view.tensor(0), length=length, axis=axis, **flags)


@TABLE.call("STFT")
def short_fourier(view: View) -> Expression:
    """Emit ``short_fourier(x, int(step), window)``."""
    window = view.tensor(2) if view.has(2) else None
    length = number(view, 3) if view.has(3) else None
    more: dict[str, object] = {} if view.operator.int("onesided") else {"onesided": False}
    return call(
        Helper("short_fourier"), view.tensor(0), number(view, 1), window=window, length=length, **more
    )


@TABLE.call("Dropout")
def dropout(view: View) -> Expression:
    """Emit ``F.dropout(x, float(ratio), bool(training))``, ``dropped`` where the mask is read."""
    ratio = number_or(view, 1, 0.5, "float")
    training = number_or(view, 2, False, "bool")
    if view.used_outputs() == 1:
        return call("F.dropout", view.tensor(0), ratio, training)
    return Expression(call(Helper("dropped"), view.tensor(0), ratio, training).parts, outputs=2)


@TABLE.call("Resize")
def resize(view: View) -> Expression:
    """Emit ``resized(x, scales=numbers(scales), axes=(2, 3), mode="cubic")``."""
    return resized(view)
