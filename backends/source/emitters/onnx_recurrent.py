"""ONNX's recurrent operators, whose weights are operands: functions of the emitted file's own."""

from __future__ import annotations

from collections.abc import Callable

from ..emitting import Expression, Literal, Refused, View
from ..expressions import Attribute, Element, Helper, Part, call

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _activations(view: View, directions: int) -> list[str]:
    """Return the activations of each direction.

    Raises:
        Refused: for others than the usual ones, and those of a plain layer.
    """
    kind, given = view.operator.op_type, view.operator.attribute("activations")
    usual = _USUAL[kind]
    names = [str(name) for name in given] if isinstance(given, (list, tuple)) else []
    if kind == "RNN" and names[:1] in (["Relu"], ["Sigmoid"]):
        usual = names[:1]
    if names and names[: len(usual) * directions] != usual * directions:
        raise Refused
    return usual


def recurrent(view: View, zeros: Callable[..., Expression], activation: Callable[[str], Part]) -> Expression:
    """Return ``onnx_lstm(x, w, r, b, lengths, h, c, peepholes, backwards)`` and its kin.

    Args:
        view: the operator.
        zeros: returns a tensor of zeros of given sizes, of the operand's element type.
        activation: returns the function of ONNX's name for one.
    """
    operator, kind = view.operator, view.operator.op_type
    directions, _, hidden = view.static_shape(2)
    if operator.int("layout") or operator.attribute("clip") is not None:
        raise Refused
    if kind == "LSTM" and operator.int("input_forget"):
        raise Refused
    usual = _activations(view, directions)
    rows, width = Literal(directions, "directions"), Literal(hidden, "hidden")
    batch = Element(Attribute(view.atom(), "shape"), 1)
    bias = view.tensor(3) if view.has(3) else zeros(rows, Literal(2 * GATES[kind] * hidden, "gates"))
    states = [
        view.tensor(slot) if view.has(slot) else zeros(rows, batch, width)
        for slot in ((5, 6) if kind == "LSTM" else (5,))
    ]
    lengths: Part = view.tensor(4) if view.has(4) else "None"
    backwards = {"forward": (False,), "reverse": (True,)}.get(operator.str("direction"), (False, True))
    more: list[object] = []
    if kind == "LSTM":
        states.append(view.tensor(7) if view.has(7) else "None")
    elif kind == "GRU":
        more = [bool(operator.int("linear_before_reset"))]
    else:
        more = [Expression((activation(usual[0]),))]
    found = call(
        Helper(f"onnx_{kind.lower()}"),
        *(view.tensor(slot) for slot in range(3)),
        bias,
        Expression((lengths,)),
        *(Expression((state,)) for state in states),
        backwards,
        *more,
    )
    return Expression(found.parts, outputs=3 if kind == "LSTM" else 2)
