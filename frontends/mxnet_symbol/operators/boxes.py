"""Boxes of detectors: coding, overlaps, suppression of what overlaps, and anchors.

A box is four numbers: left, top, right and bottom (``corner``), or middle, width and height (``center``).
"""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.composites.terms import Term, exp, log, maximum, where
from ....ir.dims import product
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

MOST_PAIRS = 1 << 27
"""Each box is compared with each: the detectors of the zoos look at 400 to 6,000."""


def columns(x: Term, first: int, count: int = 1) -> Term:
    """`count` neighbours along the last axis, which stays."""
    bounds = [Term(x.b, x.b.constant([n])) for n in (first, first + count, -1)]
    return x.op("Slice", *bounds)


def joined(call: Call, parts: list[Term]) -> Term:
    return Term(call.b, call.op("Concat", *(p.value for p in parts), axis=-1))


def _in_corners(call: Call, boxes: Term, form: str) -> Term:
    """Return boxes of either form as left, top, right and bottom."""
    if form == "corner":
        return boxes
    middle, half = columns(boxes, 0, 2), columns(boxes, 2, 2) / 2
    return joined(call, [middle - half, middle + half])


def _areas(boxes: Term, form: str) -> Term:
    """Return the area of each box, 0 where a side is negative; the last axis stays."""
    sides = columns(boxes, 2, 2) if form == "center" else columns(boxes, 2, 2) - columns(boxes, 0, 2)
    width, height = columns(sides, 0), columns(sides, 1)
    area = width * height
    return where((width < 0) | (height < 0), area * 0, area)


def shared_area(left: Term, right: Term) -> Term:
    """Return the area that boxes (in corners) share."""
    low = maximum(columns(left, 0, 2), columns(right, 0, 2))
    high = columns(left, 2, 2).op("Min", columns(right, 2, 2))
    sides = (high - low).clip(0)
    return columns(sides, 0) * columns(sides, 1)


def _form(call: Call, key: str, default: str) -> str:
    form = call.text(key, default)
    if form not in ("corner", "center"):
        raise call.unsupported(f"expected the {key} corner or center, got {form}")
    return form


@TABLE.op("_contrib_box_decode")
def box_decode(call: Call) -> Value:
    """Return boxes in corners from their offsets to anchors."""
    x, anchors = (Term(call.b, v) for v in call.operands())
    form, most = _form(call, "format", "center"), call.float("clip", -1.0)
    scales = np.array([call.float(f"std{n}", 1.0) for n in range(4)])
    x = x * Term(call.b, call.constant(scales, x.dtype))
    if form == "corner":
        start, sides = columns(anchors, 0, 2), columns(anchors, 2, 2) - columns(anchors, 0, 2)
        middle = start + sides * 0.5
    else:
        middle, sides = columns(anchors, 0, 2), columns(anchors, 2, 2)
    centre = columns(x, 0, 2) * sides + middle
    grown = columns(x, 2, 2)
    if most > 0:
        grown = grown.op("Min", most)
    half = exp(grown) * sides * 0.5
    return joined(call, [centre - half, centre + half]).value


@TABLE.op("_contrib_box_encode")
def box_encode(call: Call) -> list[Value]:
    """Return the offsets of anchors to the boxes that they match, and where there are any."""
    samples, matches, anchors, boxes, means, stds = (Term(call.b, v) for v in call.operands())
    last = Term(call.b, call.constant([-1]))
    matched = rows_at(boxes, matches.cast("int64"), 4)
    sides = columns(matched, 2, 2) - columns(matched, 0, 2)
    own = columns(anchors, 2, 2) - columns(anchors, 0, 2)
    centres = [columns(matched, 0, 2) + sides * 0.5, columns(anchors, 0, 2) + own * 0.5]
    offsets = joined(call, [(centres[0] - centres[1]) / own, log(sides / own)])
    found = (offsets - means) / stds
    used = (samples > 0.5).op("Unsqueeze", last)
    mask = Term(call.b, call.op("Expand", used.cast(anchors.dtype).value, call.op("Shape", anchors.value)))
    return [where(used, found, 0.0).value, mask.value]


@TABLE.op("_contrib_box_iou")
def box_iou(call: Call) -> Value:
    """Return the overlap of every box of one list with every box of another, over what both cover."""
    left, right = (Term(call.b, v) for v in call.operands())
    form = _form(call, "format", "corner")
    shapes = [call.shape(left.value)[:-1], call.shape(right.value)[:-1]]
    left, right = (
        Term(call.b, call.reshape(x.value, [*before, *s, *after, 4]))
        for x, before, s, after in (
            (left, (), shapes[0], (1,) * len(shapes[1])),
            (right, (1,) * len(shapes[0]), shapes[1], ()),
        )
    )
    shared = shared_area(_in_corners(call, left, form), _in_corners(call, right, form))
    overlap = shared / (_areas(left, form) + _areas(right, form) - shared)
    found = where(shared > 0, overlap, 0.0)
    return call.op("Squeeze", found.value, call.constant([-1]))


def in_order(call: Call, rows: Term, scores: Term, count: int) -> tuple[Term, Term]:
    """Return (the rows of the `count` best scores of a batch, those scores), the first of equals first."""
    best, places = call.ops("TopK", scores.value, call.constant([count]), outputs=2, axis=-1)
    (width,) = call.static_shape(rows.value, [2])
    return rows_at(rows, Term(call.b, places), width), Term(call.b, best)


def rows_at(rows: Term, places: Term, width: int) -> Term:
    """Return rows of a batch by their places in it."""
    last, shape = (Term(rows.b, rows.b.constant(sizes)) for sizes in ([-1], [1, 1, width]))
    return rows.op("GatherElements", places.op("Unsqueeze", last).op("Expand", shape), axis=1)


def paired(x: Term) -> tuple[Term, Term]:
    """Return rows of a batch as the first, and as the second of all pairs."""
    return x.op("Unsqueeze", Term(x.b, x.b.constant([2]))), x.op("Unsqueeze", Term(x.b, x.b.constant([1])))


def suppressed(call: Call, alive: Term, hides: Term, count: int) -> Term:
    """Select the rows that stay when earlier rows hide later ones."""
    first, second = paired(Term(call.b, call.constant(np.arange(count)[None])))
    hides = hides & (first < second)
    return Term(call.b, call.op("regraft.Suppressed", alive.value, hides.value))


def packed(call: Call, rows: Term, kept: Term, count: int) -> Term:
    """Return the rows that stay, in order, then rows of -1."""
    place = Term(call.b, call.constant(np.arange(count, dtype=np.float32)))
    packed, order = in_order(call, rows, where(kept, count - place, -place), count)
    return where((order > 0).op("Unsqueeze", Term(call.b, call.constant([-1]))), packed, -1.0)


def _reformed(call: Call, rows: Term, start: int, width: int, form: str) -> Term:
    """Return rows whose boxes take the other form, where their first number is not negative."""
    boxes = columns(rows, start, 4)
    first, second = columns(boxes, 0, 2), columns(boxes, 2, 2)
    if form == "corner":
        found = joined(call, [(first + second) / 2, second - first])
    else:
        found = joined(call, [first - second / 2, first + second / 2])
    parts = [where(columns(boxes, 0) < 0, boxes, found)]
    if start:
        parts.insert(0, columns(rows, 0, start))
    if start + 4 < width:
        parts.append(columns(rows, start + 4, width - start - 4))
    return joined(call, parts)


@TABLE.op("_contrib_box_nms")
def box_nms(call: Call) -> Value:
    """Return the boxes that no better one of their class overlaps too much, best first; then rows of -1.

    Only the `topk` best with a score above `valid_thresh` are looked at.
    """
    x, shape = Term(call.b, call.value(0)), call.shape()
    threshold, lowest = call.float("overlap_thresh", 0.5), call.float("valid_thresh", 0.0)
    most, start, score = call.int("topk", -1), call.int("coord_start", 2), call.int("score_index", 1)
    kind, background = call.int("id_index", -1), call.int("background_id", -1)
    together = call.flag("force_suppress")
    form, wanted = _form(call, "in_format", "corner"), _form(call, "out_format", "corner")
    boxes, width = call.static_shape(axes=[len(shape) - 2, len(shape) - 1])
    count = boxes if most < 0 else min(boxes, most)
    if count < 1:
        return x.value
    call.bounded(count * count, MOST_PAIRS)
    if len(shape) != 3:
        x = Term(call.b, call.reshape(x.value, [product(shape[:-2]), boxes, width]))
    scores = columns(x, score)
    valid = scores > lowest
    if kind >= 0:
        valid = valid & ~columns(x, kind).equals(float(background))
    scores = where(valid, scores, float("-inf")).op("Squeeze", Term(call.b, call.constant([-1])))
    rows, best = in_order(call, x, scores, count)
    places = columns(rows, start, 4)
    shared = shared_area(*paired(_in_corners(call, places, form)))
    first, second = paired(_areas(places, form))
    hides = shared / (first + second - shared) > threshold
    if kind >= 0 and not together:
        first, second = paired(columns(rows, kind).cast("int32"))
        hides = hides & first.equals(second)
    hides = hides.op("Squeeze", Term(call.b, call.constant([-1])))
    kept = suppressed(call, best > float("-inf"), hides, count)
    found = packed(call, rows, kept, count)
    if count < boxes:
        pads = call.constant([0, 0, 0, 0, boxes - count, 0])
        found = found.op("Pad", Term(call.b, pads), -1.0)
    if form != wanted:
        found = _reformed(call, found, start, width, form)
    return found.value if len(shape) == 3 else call.reshape(found.value, shape)


@TABLE.op("_contrib_bipartite_matching")
def bipartite_matching(call: Call) -> list[Value]:
    """The best pairs of rows and columns, each once: the column of every row, and the row of every column."""
    x, shape = Term(call.b, call.value(0)), call.shape()
    least, ascending, most = call.float("threshold"), call.flag("is_ascend"), call.int("topk", -1)
    rows, columns = call.static_shape(axes=[len(shape) - 2, len(shape) - 1])
    count = rows * columns
    call.bounded(count * count, MOST_PAIRS)
    scores = call.reshape(x.value, [product(shape[:-2]), count])
    best, places = (
        Term(call.b, v)
        for v in call.ops("TopK", scores, call.constant([count]), outputs=2, axis=-1, largest=not ascending)
    )
    row, column = places.op("Div", columns), places.op("Mod", columns)
    pairs = [paired(part.op("Unsqueeze", Term(call.b, call.constant([-1])))) for part in (row, column)]
    clash = [a.equals(b).op("Squeeze", Term(call.b, call.constant([-1]))) for a, b in pairs]
    kept = suppressed(call, best < least if ascending else best > least, clash[0] | clash[1], count)
    if most > 0:
        seen = kept.cast("int64").op("CumSum", Term(call.b, call.constant(1)))
        kept = kept & (seen <= most + 1)
    found: list[Value] = []
    for of, other, size, lead in (
        (row, column, rows, shape[:-1]),
        (column, row, columns, (*shape[:-2], shape[-1])),
    ):
        own = Term(call.b, call.constant(np.arange(size)[:, None]))
        spread = (t.op("Unsqueeze", Term(call.b, call.constant([1]))) for t in (of, other, kept))
        where_from, partner, used = spread
        chosen = where(where_from.equals(own) & used, partner, -1).op(
            "ReduceMax", Term(call.b, call.constant([-1])), keepdims=0
        )
        found.append(call.reshape(chosen.cast(x.dtype).value, lead))
    return found


@TABLE.op("_contrib_MultiBoxDetection")
def multibox_detection(call: Call) -> Value:
    """Rows of class, score and box in corners: the class is -1 where a better box of its class overlaps.

    Boxes are sorted by score; those without a class are rows of -1 at the end. Beyond the `nms_topk` best the
    rows are those of the anchors in order, without their class, as MXNet leaves them.
    """
    classes, offsets, anchors = (Term(call.b, v) for v in call.operands())
    call.ignore("background_id")  # MXNet reads none but 0
    least, threshold, most = (
        call.float("threshold", 0.01),
        call.float("nms_threshold", 0.5),
        call.int("nms_topk", -1),
    )
    together, clipped = call.flag("force_suppress"), call.flag("clip", default=True)
    (count,) = call.static_shape(axes=[2])
    last = Term(call.b, call.constant([-1]))
    boxes = _decoded(call, offsets, anchors, count)
    boxes = boxes.clip(0, 1) if clipped else boxes
    bounds = [Term(call.b, call.constant([n])) for n in (1, 2**31 - 1, 1)]
    candidates = classes.op("Slice", *bounds)
    scores = candidates.op("ReduceMax", Term(call.b, call.constant([1])), keepdims=0)
    kinds = candidates.op("ArgMax", axis=1, keepdims=0).cast(scores.dtype)
    valid = (scores >= least) & (scores > -1)
    rows = joined(call, [kinds.op("Unsqueeze", last), scores.op("Unsqueeze", last), boxes])
    if not 0 < threshold <= 1:
        return packed(call, rows, valid, count).value
    looked = min(most, count) if most > 0 else count
    call.bounded(looked * looked, MOST_PAIRS)
    found, best = in_order(call, rows, where(valid, scores, float("-inf")), looked)
    alive = best > float("-inf")
    places, own = columns(found, 2, 4), columns(found, 0)
    shared = shared_area(*paired(places))
    sizes = columns(places, 2, 2) - columns(places, 0, 2)
    first, second = paired(columns(sizes, 0) * columns(sizes, 1))
    union = first + second - shared
    hides = where(union <= 0, 0.0, shared / union) >= threshold
    if not together:
        first, second = paired(own)
        hides = hides & first.equals(second)
    kept = suppressed(call, alive, hides.op("Squeeze", last), looked).op("Unsqueeze", last)
    found = joined(call, [where(kept, own, -1.0), columns(found, 1, 5)])
    found = where(alive.op("Unsqueeze", last), found, -1.0)
    if looked < count:
        bounds = [Term(call.b, call.constant([n])) for n in (looked, count, 1)]
        rest = packed(call, rows, valid, count).op("Slice", *bounds)
        rest = joined(call, [columns(rest, 0) * 0 - 1, columns(rest, 1, 5)])
        found = Term(call.b, call.op("Concat", found.value, rest.value, axis=1))
    return found.value


def _decoded(call: Call, offsets: Term, anchors: Term, count: int) -> Term:
    """Return boxes in corners from their offsets to anchors in corners."""
    scales = Term(
        call.b, call.constant(np.array(call.floats("variances", (0.1, 0.1, 0.2, 0.2))), offsets.dtype)
    )
    shape = [*call.shape(offsets.value)[:1], count, 4]
    x = Term(call.b, call.reshape(offsets.value, shape)) * scales
    start, end = columns(anchors, 0, 2), columns(anchors, 2, 2)
    sides, middle = end - start, (start + end) / 2
    centre, half = columns(x, 0, 2) * sides + middle, exp(columns(x, 2, 2)) * sides / 2
    return joined(call, [centre - half, centre + half])


@TABLE.op("_contrib_MultiBoxPrior")
def multibox_prior(call: Call) -> Value:
    """Anchors around every place of a map, as shares of its sides: sizes at one ratio, ratios at one size."""
    call.value(0)  # of which only the shape counts
    height, width = call.static_shape(axes=[2, 3])
    sizes = np.array(call.floats("sizes", (1.0,)), np.float32)
    ratios = np.sqrt(np.array(call.floats("ratios", (1.0,)), np.float32))
    offsets, steps = call.floats("offsets", (0.5, 0.5)), call.floats("steps", (-1.0, -1.0))
    call.bounded(height * width * 4 * (len(sizes) + len(ratios)))
    up, across = (
        given if given > 0 else 1 / size for given, size in zip(steps, (height, width), strict=True)
    )
    tall = np.concatenate([sizes / ratios[0], sizes[0] / ratios[1:]]) / 2
    wide = np.concatenate([sizes * ratios[0], sizes[0] * ratios[1:]]) * height / width / 2
    y = ((np.arange(height) + offsets[0]) * up)[:, None, None]
    x = ((np.arange(width) + offsets[1]) * across)[None, :, None]
    parts = np.broadcast_arrays(x - wide, y - tall, x + wide, y + tall)
    anchors = np.stack(parts, -1).reshape(1, -1, 4).astype(np.float32)
    return call.constant(np.clip(anchors, 0, 1) if call.flag("clip") else anchors)
