"""The cases of the torch frontend's rows, a file a family: whoever adds a row adds a `Case` here."""

from . import activation, conv, creation, indexing, linear, math, reduce, resize, shape

FAMILIES = {
    "activation": activation.GROUPS,
    "conv": conv.GROUPS,
    "creation": creation.GROUPS,
    "indexing": indexing.GROUPS,
    "linear": linear.GROUPS,
    "math": math.GROUPS,
    "reduce": reduce.GROUPS,
    "resize": resize.GROUPS,
    "shape": shape.GROUPS,
}
