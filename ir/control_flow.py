"""Checks the types of values that enter and leave the nested graphs of If and Loop."""

from __future__ import annotations

from .errors import InvalidGraphError
from .graph import Graph
from .nodes import Operator, Value
from .types import TensorType, contradicts

_FLAG = TensorType("bool", None)
_COUNT = TensorType("int64", None)


def check_nested_types(graph: Graph, operator: Operator) -> None:
    """Check that the types an operator gives to its nested graphs, and gets back, agree with theirs.

    Raises:
        InvalidGraphError: naming what does not fit.
    """
    captured = [graph.type_of(v) for v in graph.captured(operator.key)]
    for name, body in operator.subgraphs().items():
        for number, (key, given) in enumerate(zip(body.captures, captured, strict=False)):
            _expect(f"capture {number} of `{name}`", given, body.type_of(Value(key)))
    if operator.op_type == "If":
        _check_if(graph, operator)
    elif operator.op_type == "Loop":
        _check_loop(graph, operator)


def _check_if(graph: Graph, operator: Operator) -> None:
    _expect_one("the condition", _FLAG, _operand_types(graph, operator)[0])
    for name, body in operator.subgraphs().items():
        _expect_count(f"results of `{name}`", len(operator.types), len(body.outputs))
        for number, (result, recorded) in enumerate(zip(_results(body), operator.types, strict=True)):
            _expect(f"output {number}, which `{name}` gives,", result, recorded)


def _check_loop(graph: Graph, operator: Operator) -> None:
    operands, body = _operand_types(graph, operator), operator.subgraphs()["body"]
    state = operands[2:]
    _expect_count("inputs of `body`", 2 + len(state), len(body.inputs))
    _expect_count("results of `body`", 1 + len(operator.types), len(body.outputs))
    if len(operator.types) < len(state):
        raise _fault("number of outputs", f"at least {len(state)}", len(operator.types))
    formals, results = [body.type_of(Value(key)) for key in body.inputs], _results(body)
    for name, expected, found in (
        ("the trip count", _COUNT, operands[0] if operands else None),
        ("the condition", _FLAG, operands[1] if len(operands) > 1 else None),
        ("input 0 of `body`", _COUNT, formals[0]),
        ("input 1 of `body`", _FLAG, formals[1]),
        ("result 0 of `body`", _FLAG, results[0]),
    ):
        _expect_one(name, expected, found)
    for number, initial in enumerate(state):
        formal, result, recorded = formals[2 + number], results[1 + number], operator.types[number]
        _expect(f"input {2 + number} of `body`, which starts from operand {2 + number},", initial, formal)
        _expect(f"result {1 + number} of `body`, which is the next input {2 + number},", formal, result)
        _expect(f"output {number}, which starts from operand {2 + number},", initial, recorded)
        _expect(f"output {number}, which `body` gives,", result, recorded)
    for number in range(len(state), len(operator.types)):
        slice_ = results[1 + number]
        if slice_ is not None:
            shape = None if slice_.shape is None else (None, *slice_.shape)
            _expect(
                f"output {number}, of which `body` gives the slices,",
                slice_.with_shape(shape),
                operator.types[number],
            )


def _operand_types(graph: Graph, operator: Operator) -> list[TensorType | None]:
    return [None if v is None else graph.type_of(v) for v in graph.operands(operator.key)]


def _results(body: Graph) -> list[TensorType | None]:
    return [body.type_of(value) for _, value in body.outputs]


def _expect_count(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise _fault(f"number of {what}", expected, found)


def _expect_one(what: str, expected: TensorType, found: TensorType | None) -> None:
    """Require a tensor with one element of that type."""
    _expect(what, expected, found)
    if (
        found is not None
        and found.shape not in (None, (), (1,))
        and any(isinstance(d, int) and d != 1 for d in found.shape)
    ):
        raise _fault(what, "one element", found)


def _expect(what: str, expected: TensorType | None, found: TensorType | None) -> None:
    if expected is not None and found is not None and contradicts(expected, found):
        raise _fault(what, expected, found)


def _fault(what: str, expected: object, found: object) -> InvalidGraphError:
    return InvalidGraphError("E301", f"expected {what} to be {expected}, got {found}")
