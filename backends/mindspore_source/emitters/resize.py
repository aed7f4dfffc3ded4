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
from ...source.expressions import ATOM, Attribute, Helper, Part, Tuple, call, method

TABLE = EmitterTable()

_HALF = {"half_pixel", "pytorch_half_pixel"}
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _target(view: View, rank: int) -> dict[str, object]:
    """Return the size arguments of `ops.interpolate`: a whole factor where the source has one, else sizes.

    Without ``recompute_scale_factor`` MindSpore takes a factor only in the modes area and bicubic.
    """
    factors = None if not view.has(2) else view.constant(2)
    if factors is None or factors.size == 0:
        return {"size": _size(view, rank)}
    spatial, others = [float(f) for f in factors.ravel()[-rank:]], factors.ravel()[:-rank]
    if any(f < 1 or f != int(f) for f in spatial) or len(set(spatial)) > 1 or np.any(others != 1):
        return {"size": _size(view, rank)}
    return {"scale_factor": spatial[0], "recompute_scale_factor": True}


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


def _interpolation(view: View) -> dict[str, object]:
    """Return the arguments of `ops.interpolate`, for the modes in which it agrees with ONNX."""
    operator = view.operator
    rank = view.rank() - 2
    if rank not in _LINEAR or operator.int("antialias") or operator.int("exclude_outside"):
        raise Refused
    mode = operator.str("mode")
    where = operator.str("coordinate_transformation_mode")
    if operator.ints("axes") not in ([], list(range(view.rank())), list(range(2, view.rank()))):
        raise Refused
    aligned = where == "align_corners"
    if not _to_size(view):
        raise Refused  # ops.interpolate takes a size, and factors from it
    if where == "pytorch_half_pixel" and 1 in _size(view, rank):
        raise Refused  # the first place, not the middle, where one is left of an axis
    if mode == "nearest":
        rounding = operator.str("nearest_mode")
        if (where, rounding) == ("half_pixel", "round_prefer_ceil") and rank < 3:
            return {"size": _size(view, rank), "mode": "nearest-exact"}
        if (where, rounding) == ("asymmetric", "floor"):
            return {**_target(view, rank), "mode": "nearest"}
    if mode == "linear" and (where in _HALF or aligned):
        return {**_target(view, rank), "mode": _LINEAR[rank], "align_corners": aligned}
    raise Refused  # MindSpore's bicubic looks its weights up in a table of 1024: 3e-3 off


@TABLE.call("Resize")
def resize(view: View) -> Expression:
    """Emit ops.interpolate."""
    return call("ops.interpolate", view.use(0), **_interpolation(view))


@TABLE.layer("Resize")
def upsample(view: View) -> NnLayer:
    """Emit nn.Upsample, for a module that does nothing else."""
    arguments = tuple(Argument(name, Literal(value, name)) for name, value in _interpolation(view).items())
    return NnLayer(Call(NnClass("Upsample"), arguments), ())


@TABLE.call("GridSample")
def grid_sample(view: View) -> Expression:
    """Emit ops.grid_sample, which has no cubic interpolation."""
    operator, rank = view.operator, view.rank()
    mode = operator.str("mode")
    if mode == "cubic" or rank not in (4, 5):
        raise Refused
    return call(
        "ops.grid_sample",
        view.use(0),
        _nearest(view) if mode == "nearest" else view.use(1),
        mode="nearest" if mode == "nearest" else "bilinear",
        padding_mode=operator.str("padding_mode"),
        align_corners=bool(operator.int("align_corners")),
    )


def _nearest(view: View) -> Part:
    """Return places at the middles of pixels, since the kernel rounds another way than ONNX does."""
    aligned, padding = bool(view.operator.int("align_corners")), view.operator.str("padding_mode")
    return call(Helper("nearest_pixels"), view.tensor(1), view.use(0), aligned, padding == "reflection")


@TABLE.call("NonMaxSuppression")
def non_max_suppression(view: View) -> Expression:
    """Emit a call of the emitted file's own function."""
    most, overlap = int(view.scalar(2, 0)), float(view.scalar(3, 0.0))
    score = float(view.scalar(4, float("-inf")))
    centred = bool(view.operator.int("center_point_box"))
    return call(Helper("non_max_suppression"), view.tensor(0), view.tensor(1), most, overlap, score, centred)


@TABLE.call("RoiAlign")
def roi_align(view: View) -> Expression:
    """Emit ops.ROIAlign, whose CPU kernel is ONNX's with a given number of samples and corners as they are.

    It has no adaptive number of samples (NaN and other values were measured), and no half pixels. It leaves
    regions that start and end within 0.001 of the left edge out, as padding; sides count as one pixel at
    least, so that half of one makes such a region wide enough and nothing else.
    """
    operator = view.operator
    samples = operator.int("sampling_ratio")
    if (
        samples < 1
        or operator.str("mode") != "avg"
        or operator.str("coordinate_transformation_mode") == "half_pixel"
    ):
        raise Refused
    given = {
        "pooled_height": operator.int("output_height"),
        "pooled_width": operator.int("output_width"),
        "spatial_scale": operator.float("spatial_scale"),
        "sample_num": samples,
        "roi_end_mode": 0,
    }
    primitive = Call("ops.ROIAlign", tuple(Argument(n, Literal(v, n)) for n, v in given.items()))
    corners, half = view.use(1, ATOM), Literal(0.5 / operator.float("spatial_scale"))
    first, third = (Expression((corners, f"[:, {k}:{k + 1}]")) for k in (0, 2))
    right = call("ops.maximum", third, Expression((first, " + ", half)))
    parts = (Expression((corners, "[:, :2]")), right, Expression((corners, "[:, 3:]")))
    image = method(view.use(2, ATOM), "astype", Attribute(view.use(1, ATOM), "dtype"))
    rows = call("ops.cat", Tuple((method(image, "reshape", -1, 1), *parts)), axis=1)
    return call(view.scope.attribute("roi_align", primitive), view.use(0), rows)


def _to_size(view: View) -> bool:
    """Whether the factors are output size over input size; stated ones count also where a size is rounded."""
    factors, to = view.constant(2), view.output_type()
    if factors is None or not factors.size or to is None or to.shape is None:
        return not view.has(2)
    pairs = list(zip(view.shape(), to.shape, strict=True))
    axes = view.operator.ints("axes") or list(range(len(pairs)))
    given = zip(factors.reshape(-1), (pairs[a] for a in axes), strict=True)
    return all(
        bool(np.isclose(f, m / n, rtol=1e-6)) if isinstance(n, int) and isinstance(m, int) else f == 1
        for f, (n, m) in given
    )


@TABLE.call("AffineGrid")
def affine_grid(view: View) -> Expression:
    """Emit ops.affine_grid."""
    return call(
        "ops.affine_grid", view.tensor(0), tuple(view.ints(1)), bool(view.operator.int("align_corners"))
    )
