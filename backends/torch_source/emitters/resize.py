"""Interpolation, to a size where it is known, and samples at given places."""

from __future__ import annotations

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
from ...source.expressions import call

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
        if (where, rounding) == ("asymmetric", "floor"):
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
    """Emit F.interpolate."""
    return call("F.interpolate", view.use(0), **_interpolation(view))


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
