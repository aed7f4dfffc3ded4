"""Attributes that are written out with their defaults, as old files have all of them, change nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.frontends.mxnet_symbol import read
from regraft.frontends.mxnet_symbol.names import canonical
from regraft.frontends.mxnet_symbol.operators import TABLE
from regraft.frontends.options import LoadOptions
from regraft.ir import render

from ..corpora.mxnet.cases import ROOT, cases
from ..rows.mxnet_symbol import RANDOM

DEFAULTS: dict[str, dict[str, str]] = json.loads((ROOT / "defaults.json").read_text(encoding="utf-8"))
"""Operator -> attribute -> its default, as MXNet 1.9.1's own registry states it."""

SPELLINGS = {
    "as MXNet wrote them": lambda text: text.replace("[", "(").replace("]", ")").replace(",", ", "),
    "as the registry has them": lambda text: text,
    "flags as numbers": lambda text: {"True": "1", "False": "0"}.get(text, text),
}
MOST = 200  # nodes: one small net that has an operator tells as much as a large one

Symbol = dict[str, Any]

ALONE = {**RANDOM, "_div_scalar": ({"scalar": "2"}, [np.ones((2, 3), np.float32)])}
"""Operators that no small recorded symbol has: attributes and inputs."""


def _of_one_operator(operator: str) -> tuple[Symbol, dict[str, np.ndarray]]:
    attributes, given = ALONE[operator]
    nodes: list[Symbol] = [{"op": "null", "name": f"x{n}", "inputs": []} for n in range(len(given))]
    uses = [[number, 0, 0] for number in range(len(given))]
    nodes.append({"op": operator, "name": "row", "attrs": attributes, "inputs": uses})
    inputs = {f"x{number}": array for number, array in enumerate(given)}
    return {"nodes": nodes, "arg_nodes": list(range(len(given))), "heads": [[len(given), 0, 0]]}, inputs


def _symbols(folder: Path) -> dict[str, tuple[Path, Symbol, dict[str, np.ndarray]]]:
    """Every operator in a small symbol: its file, what is in it, and its inputs."""
    found: dict[str, tuple[Path, Symbol, dict[str, np.ndarray]]] = {}
    for group in ("rows", "ops", "legacy", "models"):
        for name, case in cases(group).items():
            symbol = case.symbol()
            if len(symbol["nodes"]) <= MOST:
                place = folder / str(len(found))
                place.mkdir()
                found[name] = case.write(place), symbol, case.inputs()
    for operator in ALONE:
        symbol, inputs = _of_one_operator(operator)
        path = folder / f"{operator}-symbol.json"
        path.write_text(json.dumps(symbol))
        found[operator] = path, symbol, inputs
    return found


def _spell_out(symbol: Symbol, spelling: str, key: str, seen: set[str]) -> Symbol:
    """The same symbol with every default of its operators, all attributes under one key."""
    written = copy.deepcopy(symbol)
    for node in written["nodes"]:
        if node["op"] == "null":
            continue
        operator = canonical(node["op"])
        seen.add(operator)
        given = {k: v for part in ("param", "attr", "attrs") for k, v in node.pop(part, {}).items()}
        known = DEFAULTS.get(operator, {})
        node[key] = {**{k: SPELLINGS[spelling](v) for k, v in known.items()}, **given}
    return written


@pytest.mark.parametrize(("spelling", "key"), zip(SPELLINGS, ("param", "attrs", "attr"), strict=True))
def test_every_operator_with_its_defaults_is_the_same(spelling: str, key: str, tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    seen: set[str] = set()
    for name, (path, symbol, inputs) in _symbols(tmp_path).items():
        options = LoadOptions(dynamic_batch=False)
        plain = render(read(path, list(inputs.items()), options))
        path.write_text(json.dumps(_spell_out(symbol, spelling, key, seen)), encoding="utf-8")
        try:
            found = render(read(path, list(inputs.items()), options))
        except Exception as error:
            failed[name] = str(error)
            continue
        if found != plain:
            failed[name] = "another graph"
    assert not failed, json.dumps(failed, indent=1)
    assert set(DEFAULTS) == set(TABLE.names()) <= seen


UNUSED = {
    "an ignored label that is not used": ("SoftmaxOutput", {"ignore_label": "255", "use_ignore": "False"}),
    "a triangle beside the diagonal": ("_linalg_extracttrian", {"offset": "1", "lower": "False"}),
}


@pytest.mark.parametrize("name", UNUSED)
def test_what_another_attribute_makes_idle_is_read(name: str, tmp_path: Path) -> None:
    operator, attributes = UNUSED[name]
    inputs = {"x": np.zeros((2, 3, 3) if "linalg" in operator else (2, 3), np.float32)}
    nodes: list[Symbol] = [{"op": "null", "name": "x", "inputs": []}]
    label = [[1, 0, 0]] if operator == "SoftmaxOutput" else []
    nodes += [{"op": "null", "name": "row_label", "inputs": []}] if label else []
    nodes.append({"op": operator, "name": "row", "attrs": attributes, "inputs": [[0, 0, 0], *label]})
    path = tmp_path / "net-symbol.json"
    found: list[str] = []
    for given in (attributes, {k: v for k, v in attributes.items() if k in ("use_ignore", "offset")}):
        nodes[-1]["attrs"] = given
        path.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[len(nodes) - 1, 0, 0]]}))
        found.append(render(read(path, list(inputs.items()), LoadOptions())))
    assert found[0] == found[1]
