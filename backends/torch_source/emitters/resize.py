"""Interpolation, to a size where it is known, and samples at given places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    View,
)
from ...source.expressions import Helper, Quoted, call
from ...source.nearest_places import has_origins, nearest_places

TABLE = EmitterTable()

_HALF = {"half_pixel", "pytorch_half_pixel"}
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _factors(view: View, rank: int) -> list[float] | None:
    """Return the factors of the spatial axes; None where the source gives sizes.

    Raises:
        Refused: where other axes change.
    """
    found = None if not view.has(2) else view.constant(2)
    if found is None or found.size == 0:
        return None
    given = view.operator.ints("axes") or list(range(view.rank()))
    by_axis = {a % view.rank(): float(f) for a, f in zip(given, found.ravel(), strict=True)}
    if any(by_axis.get(axis, 1.0) != 1.0 for axis in (0, 1)):
        raise Refused
    return [by_axis.get(axis, 1.0) for axis in range(2, rank + 2)]


def _size(view: View, rank: int) -> tuple[int, ...]:
    """Return the spatial size of the output.

    Raises:
        Refused: when it is not known, or other axes change.
    """
    to = view.output_type()
    if to is None or to.shape is None or to.shape[:2] != view.shape()[:2]:
        raise Refused
    spatial = [d for d in to.shape[2:] if isinstance(d, int)]
    if len(spatial) != rank:
        raise Refused
    return tuple(spatial)


def _target(view: View, rank: int, *, by_size: bool) -> dict[str, object]:
    """Return the size, or the factors where the source has them: torch computes places by those."""
    factors = _factors(view, rank)
    if factors is None or by_size:
        if factors is not None and not _is_ratio(view, factors):
            raise Refused
        return {"size": _size(view, rank)}
    if not _floors_alike(view, factors):
        raise Refused
    return {"scale_factor": factors[0] if len(set(factors)) == 1 else tuple(factors)}


def _floors_alike(view: View, factors: list[float]) -> bool:
    """Whether torch's size, the product rounded down, is the output's, where both are known."""
    to = view.output_type()
    pairs = zip(view.shape()[2:], (to.shape or ())[2:] if to else (), factors, strict=False)
    return all(int(np.floor(n * f)) == m for n, m, f in pairs if isinstance(n, int) and isinstance(m, int))


def _is_ratio(view: View, factors: list[float]) -> bool:
    """Whether the factors are output size over input size; then a size says the same."""
    to = view.output_type()
    if to is None or to.shape is None:
        return False
    pairs = zip(view.shape()[2:], to.shape[2:], factors, strict=True)
    return all(
        isinstance(n, int) and isinstance(m, int) and np.isclose(f, m / n, rtol=1e-6) for n, m, f in pairs
    )


_MOST = 1 << 16
"""Longest axis whose places are compared."""


def _takes_torchs_places(view: View, rank: int) -> bool:
    """Whether the nearest places are those of torch's mode, as where sizes grow by whole factors."""
    where, rounding = (view.operator.str(n) for n in ("coordinate_transformation_mode", "nearest_mode"))
    factors = _factors(view, rank)
    if not has_origins(where):
        return False
    if factors is not None and all(factor.is_integer() for factor in factors):
        sizes = [(2, 2 * int(factor)) for factor in factors]  # each element is repeated alike
    elif factors is None:
        sizes = list(zip(_known(view.shape()[2:]), _size(view, rank), strict=True))
    else:
        return False
    if any(not 0 < size <= _MOST or not 0 < wanted <= _MOST for size, wanted in sizes):
        return False
    for size, wanted in sizes:
        theirs = np.floor(np.arange(wanted, dtype=np.float32) * np.float32(size / wanted)).clip(0, size - 1)
        if not np.array_equal(nearest_places(where, rounding, size, wanted, wanted / size), theirs):
            return False
    return True


def _known(sizes: Sequence[object]) -> list[int]:
    """Return sizes that are known.

    Raises:
        Refused: where some are not.
    """
    found = [size for size in sizes if isinstance(size, int)]
    if len(found) < len(sizes):
        raise Refused
    return found


def _interpolation(view: View) -> dict[str, object]:
    """Return the arguments of F.interpolate, for the modes in which it agrees with ONNX."""
    operator, rank = view.operator, view.rank() - 2
    if rank not in _LINEAR or operator.int("exclude_outside"):
        raise Refused
    mode, where = operator.str("mode"), operator.str("coordinate_transformation_mode")
    aligned, antialias = where == "align_corners", bool(operator.int("antialias"))
    more: dict[str, object] = {"antialias": True} if antialias else {}
    if where == "pytorch_half_pixel" and 1 in (view.output_type() or view.type(0)).shape[2:]:  # type: ignore[index]
        raise Refused  # the first place, not the middle, where one is left of an axis
    if mode == "nearest" and not antialias:
        rounding = operator.str("nearest_mode")
        if (where, rounding) == ("half_pixel", "round_prefer_ceil"):
            return {**_target(view, rank, by_size=False), "mode": "nearest-exact"}
        if (where, rounding) == ("asymmetric", "floor") or _takes_torchs_places(view, rank):
            return {**_target(view, rank, by_size=False), "mode": "nearest"}
    if mode == "linear" and (where in _HALF or aligned) and (not antialias or (rank == 2 and not aligned)):
        by_size = aligned or antialias
        options = {"mode": _LINEAR[rank], "align_corners": True if aligned else None, **more}
        return {**_target(view, rank, by_size=by_size), **options}
    if mode == "cubic" and rank == 2 and (where in _HALF or aligned):
        coefficient = operator.float("cubic_coeff_a")
        if not np.isclose(coefficient, -0.5 if antialias else -0.75):
            raise Refused
        options = {"mode": "bicubic", "align_corners": True if aligned else None, **more}
        return {**_target(view, rank, by_size=aligned or antialias), **options}
    raise Refused


@TABLE.call("Resize")
def resize(view: View) -> Expression:
    """Emit F.interpolate, for other modes ``resized(x, sizes=(4, 6), axes=(2, 3), mode="cubic")``."""
    try:
        return call("F.interpolate", view.use(0), **_interpolation(view))
    except Refused:
        if any(view.has(slot) and view.constant(slot) is None for slot in (1, 2, 3)):
            raise
    return resized(view)


_OPTIONS = {
    "coordinate_transformation_mode": "where",
    "nearest_mode": "rounding",
    "keep_aspect_ratio_policy": "policy",
    "cubic_coeff_a": "cubic",
    "antialias": "is_antialias",
    "exclude_outside": "is_within",
    "extrapolation_value": "outside",
}
"""Attribute -> argument of the file's own function, which has the same defaults."""


def resized(view: View) -> Expression:
    """Return a call of the file's own function, which has every mode."""
    operator, rank = view.operator, view.rank()
    mode = operator.str("mode")
    if mode != "nearest" and not view.type(0).dtype.startswith("float"):
        raise Refused
    given: dict[str, object] = {}
    for name, argument in _OPTIONS.items():
        value = operator.attribute(name)
        if value is not None and value != operator.signature.attributes[name].default:
            kind = operator.signature.attributes[name].kind
            given[argument] = Quoted(operator.str(name)) if kind == "string" else value
    given |= {name: True for name in ("is_antialias", "is_within") if name in given}
    axes = [a % rank for a in operator.ints("axes") or range(rank)]
    is_cropped = operator.str("coordinate_transformation_mode") == "tf_crop_and_resize"
    known = {name: view.constant(slot) if view.has(slot) else None for name, slot in _SETTINGS.items()}
    kept = [k for k, axis in enumerate(axes) if is_cropped or not _stays(view, known, k, axis)]
    settings: dict[str, object] = {}
    for name, slot in _SETTINGS.items():
        if not view.has(slot) or (name == "roi" and not is_cropped):
            continue
        values = known[name]
        if values is not None and not values.size:
            continue
        if values is None:
            if view.type(slot).rank != 1:
                raise Refused
            settings[name] = call(Helper("numbers"), view.tensor(slot))
            kept = list(range(len(axes)))
        else:
            settings[name] = [v.item() for v in values.reshape(-1)]
    for name, value in settings.items():
        if isinstance(value, list):
            picks = [*kept, *(len(axes) + k for k in kept)] if name == "roi" else kept
            settings[name] = tuple(value[k] for k in picks)
    to = view.output_type()
    axes = [axes[k] for k in kept]
    if known["scales"] is not None and known["scales"].size and to is not None and to.shape is not None:
        sizes = [to.shape[axis] for axis in axes]
        settings |= {"sizes": tuple(sizes)} if all(isinstance(n, int) for n in sizes) else {}
    if not axes:
        return Expression((view.use(0),))
    return call(Helper("resized"), view.tensor(0), **settings, axes=tuple(axes), mode=Quoted(mode), **given)


_SETTINGS = {"sizes": 3, "scales": 2, "roi": 1}
"""Argument of the file's own function -> operand."""


def _stays(view: View, known: dict[str, np.ndarray | None], k: int, axis: int) -> bool:
    """Whether an axis keeps its size, by a factor of 1 or a size that is its own."""
    if (scales := known["scales"]) is not None and scales.size:
        return float(scales[k]) == 1.0
    sizes = known["sizes"]
    is_stretched = view.operator.str("keep_aspect_ratio_policy") == "stretch"
    return sizes is not None and is_stretched and bool(view.shape()[axis] == int(sizes[k]))


@TABLE.layer("Resize")
def upsample(view: View) -> NnLayer:
    """Emit nn.Upsample, for a module that does nothing else."""
    given = {name: value for name, value in _interpolation(view).items() if value is not None}
    if "antialias" in given:
        raise Refused
    return NnLayer(Call(NnClass("Upsample"), tuple(Argument(n, Literal(v, n)) for n, v in given.items())))


@TABLE.call("GridSample")
def grid_sample(view: View) -> Expression:
    """Emit F.grid_sample."""
    operator, rank = view.operator, view.rank()
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(operator.str("mode"), operator.str("mode"))
    if rank not in (4, 5) or (rank == 5 and mode == "bicubic"):
        raise Refused
    return call(
        "F.grid_sample",
        view.use(0),
        view.use(1),
        mode=mode,
        padding_mode=operator.str("padding_mode"),
        align_corners=bool(operator.int("align_corners")),
    )


@TABLE.call("AffineGrid")
def affine_grid(view: View) -> Expression:
    """Emit F.affine_grid."""
    aligned = bool(view.operator.int("align_corners"))
    return call("F.affine_grid", view.tensor(0), tuple(view.ints(1)), align_corners=aligned)
