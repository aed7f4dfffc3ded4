"""The cases of the torch frontend's rows, a file a family: whoever adds a row adds a `Case` here."""

from . import (
    activation,
    complex_numbers,
    conv,
    creation,
    expansions,
    indexing,
    linalg,
    linear,
    math,
    reduce,
    resize,
    shape,
    special,
)

_FILES = (activation, conv, creation, indexing, linear, math, reduce, resize, shape, special)
_EXPANDED = (complex_numbers, expansions, linalg)

FAMILIES = {f.__name__.rpartition(".")[2]: f.GROUPS for f in (*_FILES, *_EXPANDED)}
REFUSED = [*expansions.REFUSED, *linalg.REFUSED, *special.REFUSED]
