"""The cases of what backends emit: whoever adds an emitter adds a case of its operator, if it has none."""

from . import elementwise, layers, matrices, moves, special, written_out

FAMILIES = {
    "elementwise": elementwise.CASES,
    "layers": layers.CASES,
    "matrices": matrices.CASES,
    "moves": moves.CASES,
    "special": special.CASES,
    "written_out": written_out.CASES,
}
CASES = [case for family in FAMILIES.values() for case in family]
