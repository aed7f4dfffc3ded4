"""Compares two nets that were written apart exactly, as they were read, and names the numbers that differ.

A number that acts on no input that was tried (a bound that nothing reaches, an epsilon beside large values)
leaves both nets equal; what was read still has it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from ...ir import Array, Constant, Graph, Operator
from ..certificate.verdict import Certificate, make_certificate
from ..runners.select_runner import with_values

_MOST = 3
"""Differences that are listed."""

Number = tuple[str, str, float]
"""An operator, the attribute or operand, and the number that stands there."""


def compare_exactly(
    source: Graph, target: Graph, values: Mapping[str, Array], modules: Mapping[str, str], seconds: float
) -> tuple[Certificate | None, list[str]]:
    """Compare two nets exactly within some seconds of processor time.

    Args:
        source: the source's graph.
        target: the target's.
        values: name of a parameter of the target -> the values with which it was compared.
        modules: path of a module in the source -> in the target.
        seconds: for all of it.

    Returns:
        The certificate, None where there is none, and notes: the numbers in which paired modules differ,
        where the nets are not exactly equal.
    """
    certificate, note = make_certificate(source, lambda: with_values(target, values), lambda _: None, seconds)
    notes = [note] if note else []
    if certificate is None or certificate.passed:
        return certificate, notes
    found = list(_differing_numbers(source, target, modules))
    if len(found) > _MOST:
        found[_MOST:] = [f"{len(found) - _MOST} further numbers"]
    if found:
        notes.append(f"not exactly equal, as they were read: {'; '.join(found)}")
    return certificate, notes


def _differing_numbers(source: Graph, target: Graph, modules: Mapping[str, str]) -> Iterator[str]:
    """Return the numbers that differ in calls of paired modules, where each has its place on both sides."""
    theirs, paths = _operators_by_path(target), {**modules, "": ""}
    for path, own in _operators_by_path(source).items():
        others = theirs.get(paths[path], []) if path in paths else []
        mine, other = (
            Counter(row for node in nodes for row in _numbers(graph, node))
            for graph, nodes in ((source, own), (target, others))
        )
        left, right = sorted((mine - other).elements()), sorted((other - mine).elements())
        if [row[:2] for row in left] != [row[:2] for row in right]:
            continue
        for (operator, slot, number), (_, _, instead) in dict.fromkeys(zip(left, right, strict=True)):
            name = operator.rpartition(".")[2]
            what = f"{slot} of `{name}`" if slot else f"operand of `{name}`"
            where = next(
                (
                    n.location
                    for n in others
                    if (operator, slot, instead) in _numbers(target, n) and n.location
                ),
                "",
            )
            yield f"{what} {number:.7g} against {instead:.7g}" + (f" - at {where}" if where else "")


def _operators_by_path(graph: Graph) -> dict[str, list[Operator]]:
    """Return the path of each module -> the operators of its calls themselves."""
    names = graph.modules.call_names()
    found: defaultdict[str, list[Operator]] = defaultdict(list)
    for node in graph.operators():
        call = "" if node.call is None else names[node.call]
        found[call.rpartition("#")[0]].append(node)
    return found


def _numbers(graph: Graph, node: Operator) -> list[Number]:
    """Return the floating-point numbers that an operator has as attributes or as constant operands."""
    found: list[Number] = [
        (node.qualified_name, name, float(np.float32(value)))
        for name, value in node.attributes.items()
        if isinstance(value, float) and name != "momentum"  # which acts in training only
    ]
    for index, operand in enumerate(graph.operands(node.key)):
        held = None if operand is None else graph.node(operand.node)
        if isinstance(held, Constant) and held.data.dtype.startswith(("float", "bfloat")):
            array = held.data.numpy()
            if array.size == 1:
                name = ("", "Max", "Min")[index] if node.qualified_name == "Clip" else node.qualified_name
                found.append((name, "", float(array.reshape(-1)[0].astype(np.float32))))
    return found
