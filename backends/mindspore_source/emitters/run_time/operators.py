"""Operators whose settings a run computes; the family files have them with settings that are known.

An emitter here is asked where that of the family refuses.
"""

from __future__ import annotations

from ....source.emitters.settings import count_of, number, numbers
from ....source.emitting import EmitterTable, Expression, Literal, Refused, View, first_element
from ....source.expressions import Helper, Part, Quoted, call, method

TABLE = EmitterTable()


def _tensors(view: View, *slots: int) -> list[object]:
    """Return operands as tensors, None for those that are absent; the last are left out where they are."""
    found: list[object] = [view.tensor(slot) if view.has(slot) else None for slot in slots]
    while found and found[-1] is None:
        found.pop()
    return found


def _require_count(view: View, slot: int) -> int:
    """Return how many numbers are in a slot, on which the rank of a result depends."""
    count = count_of(view, slot)
    if count is None:
        raise Refused
    return count


@TABLE.call("Slice")
def slice_(view: View) -> Expression:
    """Emit ``sliced(x, starts, ends, axes, steps)``."""
    view.rank()
    return call(Helper("sliced"), view.tensor(0), *_tensors(view, 1, 2, 3, 4))


@TABLE.call("Pad")
def pad(view: View) -> Expression:
    """Emit ``padded(x, pads, "constant", value)``."""
    view.rank()
    mode = view.operator.str("mode")
    value: object = False if view.type(0).dtype == "bool" else None
    if mode == "constant" and view.has(2):
        known = view.constant(2)
        value = view.tensor(2) if known is None else first_element(known)
    axes = view.tensor(3) if view.has(3) else None
    return call(Helper("padded"), view.tensor(0), view.tensor(1), Quoted(mode), value=value, axes=axes)


@TABLE.call("Expand")
def expand(view: View) -> Expression:
    """Emit ``expanded(x, shape)``."""
    if not _require_count(view, 1):
        return Expression((view.tensor(0),))
    view.rank()
    return call(Helper("expanded"), view.tensor(0), view.tensor(1))


@TABLE.call("Reshape")
def reshape(view: View) -> Expression:
    """Emit ``reshaped(x, shape)``; ``x.reshape(numbers(shape))`` where a 0 is a size."""
    if view.operator.int("allowzero") or not view.rank():
        return method(view.atom(), "reshape", numbers(view, 1))
    _require_count(view, 1)
    return call(Helper("reshaped"), view.tensor(0), view.tensor(1))


@TABLE.call("Unsqueeze")
def unsqueeze(view: View) -> Expression:
    """Emit ``x.expand_dims(int(axes))``, ``unsqueezed(x, axes)`` for several."""
    if _require_count(view, 1) == 1:
        return method(view.atom(), "expand_dims", number(view, 1))
    view.rank()
    return call(Helper("unsqueezed"), view.tensor(0), view.tensor(1))


@TABLE.call("Squeeze")
def squeeze(view: View) -> Expression:
    """Emit ``x.squeeze(numbers(axes))``."""
    _require_count(view, 1)
    return method(view.atom(), "squeeze", numbers(view, 1))


@TABLE.call("Split")
def split(view: View) -> Expression:
    """Emit ``ops.split(x, numbers(sizes))``."""
    found = call("ops.split", view.tensor(0), numbers(view, 1), axis=view.operator.int("axis"))
    return Expression(found.parts, outputs=len(view.operator.types))


@TABLE.call("NonMaxSuppression")
def non_max_suppression(view: View) -> Expression:
    """Emit a call of the emitted file's own function, with numbers of the limits."""
    limits: list[Part] = []
    for slot, default in ((2, 0), (3, 0.0), (4, float("-inf"))):
        if not view.has(slot) or view.constant(slot) is not None:
            limits.append(Literal(view.scalar(slot, default)))
        else:
            limits.append(call("int" if slot == 2 else "float", view.tensor(slot)))
    centred = bool(view.operator.int("center_point_box"))
    return call(Helper("non_max_suppression"), view.tensor(0), view.tensor(1), *limits, centred)


@TABLE.call("AffineGrid")
def affine_grid(view: View) -> Expression:
    """Emit ``ops.affine_grid(theta, numbers(size))``."""
    return call("ops.affine_grid", view.tensor(0), numbers(view, 1), bool(view.operator.int("align_corners")))


_RESIZE = {
    "coordinate_transformation_mode": "where",
    "nearest_mode": "rounding",
    "keep_aspect_ratio_policy": "policy",
    "cubic_coeff_a": "cubic",
    "antialias": "is_antialias",
    "exclude_outside": "is_within",
    "extrapolation_value": "outside",
}
"""Attribute -> argument of the function, which has the same defaults."""


@TABLE.call("Resize")
def resize(view: View) -> Expression:
    """Emit ``resized(x, scales, axes=(2, 3), mode="cubic")``."""
    operator, rank, to = view.operator, view.rank(), view.output_type()
    mode = operator.str("mode")
    if view.has(3) and to is not None and to.is_static:
        raise Refused  # sizes that are known though computed: a product with constant weights
    if mode != "nearest" and view.type(0).dtype not in ("float16", "float32"):
        raise Refused
    given: dict[str, object] = {}
    for name, argument in _RESIZE.items():
        value = operator.attribute(name)
        if value is not None and value != operator.signature.attributes[name].default:
            kind = operator.signature.attributes[name].kind
            given[argument] = Quoted(operator.str(name)) if kind == "string" else value
    for argument in ("is_antialias", "is_within"):
        if argument in given:
            given[argument] = True
    is_cropped = given.get("where") == Quoted("tf_crop_and_resize")
    slots = {"scales": 2, "sizes": 3} | ({"roi": 1} if is_cropped else {})
    tensors = {name: view.tensor(slot) for name, slot in slots.items() if view.has(slot)}
    axes = tuple(a % rank for a in operator.ints("axes") or range(rank))
    return call(Helper("resized"), view.tensor(0), **tensors, axes=axes, mode=Quoted(mode), **given)
