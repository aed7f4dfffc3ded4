"""Interpolation, to a size where it is known."""

from __future__ import annotations

import numpy as np

from .emitting import EmitterTable, Expression, Refused, View
from .expressions import call

table = EmitterTable()

_HALF = {"half_pixel", "pytorch_half_pixel"}
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _size(view: View, rank: int) -> tuple[int, ...]:
    """The spatial size of the output.

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


@table.call("Resize")
def resize(view: View) -> Expression:
    """ops.interpolate, for the modes in which MindSpore computes what ONNX says."""
    operator = view.operator
    rank = view.rank() - 2
    if rank not in _LINEAR or operator.int("antialias") or operator.int("exclude_outside"):
        raise Refused
    mode, where = (
        operator.str("mode", "nearest"),
        operator.str("coordinate_transformation_mode", "half_pixel"),
    )
    if operator.ints("axes") not in ([], list(range(view.rank())), list(range(2, view.rank()))):
        raise Refused
    if where != "align_corners" and not _to_size(view):
        raise Refused  # ops.interpolate takes a size, and factors from it
    if mode == "nearest":
        rounding = operator.str("nearest_mode", "round_prefer_floor")
        kind = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}
        if (where, rounding) not in kind:
            raise Refused
        return call("ops.interpolate", view.use(0), size=_size(view, rank), mode=kind[where, rounding])
    if mode == "linear" and (where in _HALF or where == "align_corners"):
        aligned = where == "align_corners"
        size = _size(view, rank)
        return call("ops.interpolate", view.use(0), size=size, mode=_LINEAR[rank], align_corners=aligned)
    if (
        mode == "cubic"
        and where == "align_corners"
        and rank == 2
        and operator.float("cubic_coeff_a", -0.75) == -0.75
    ):
        return call(
            "ops.interpolate", view.use(0), size=_size(view, rank), mode="bicubic", align_corners=True
        )
    raise Refused


def _to_size(view: View) -> bool:
    """Whether the factors are those of the sizes: given ones count also where a size is rounded."""
    factors, to = view.constant(2), view.output_type()
    if factors is None or not factors.size or to is None or to.shape is None:
        return not view.has(2)
    pairs = list(zip(view.shape(), to.shape, strict=True))
    axes = view.operator.ints("axes", list(range(len(pairs))))
    given = zip(factors.reshape(-1), (pairs[a] for a in axes), strict=True)
    return all(
        bool(np.isclose(f, m / n, rtol=1e-6)) if isinstance(n, int) and isinstance(m, int) else f == 1
        for f, (n, m) in given
    )
