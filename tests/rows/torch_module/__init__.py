"""The cases of the torch frontend's rows, a file a family: whoever adds a row adds a `Case` here."""

from . import (
    activation,
    complex_functions,
    complex_numbers,
    conv,
    creation,
    expansions,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    quantised,
    reduce,
    resize,
    selection,
    shape,
    special,
)

_FILES = (
    activation,
    conv,
    creation,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    quantised,
    reduce,
    resize,
    selection,
    shape,
)
_EXPANDED = (complex_functions, complex_numbers, expansions, special)

FAMILIES = {f.__name__.rpartition(".")[2]: f.GROUPS for f in (*_FILES, *_EXPANDED)}
REFUSED = [
    *complex_functions.REFUSED,
    *expansions.REFUSED,
    *linear_algebra.REFUSED,
    *quantised.REFUSED,
    *special.REFUSED,
]
