"""Two nets without parameters, and two symbols whose parameters were not kept."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regraft
from regraft.verification import Report

Symbol = dict[str, Any]
DATA = {"data": np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2)}


def node(op: str, name: str, inputs: list[int], **attributes: str) -> dict[str, Any]:
    return {"op": op, "name": name, "attrs": attributes, "inputs": [[i, 0, 0] for i in inputs]}


def symbol(*nodes: dict[str, Any]) -> Symbol:
    variables = [n for n, made in enumerate(nodes) if made["op"] == "null"]
    return {"nodes": list(nodes), "arg_nodes": variables, "heads": [[len(nodes) - 1, 0, 0]]}


def activation(kind: str, name: str) -> Symbol:
    return symbol(node("null", "data", []), node("Activation", name, [0], act_type=kind))


NORMALISED = symbol(
    node("null", "data", []),
    node("null", "conv_weight", []),
    node("null", "conv_bias", []),
    node("Convolution", "conv", [0, 1, 2], kernel="(1, 1)", num_filter="4"),
    *(node("null", f"bn_{what}", []) for what in ("gamma", "beta", "moving_mean", "moving_var")),
    node("BatchNorm", "bn", [3, 4, 5, 6, 7], fix_gamma="False"),
)


def verified(source: Symbol, target: Symbol, folder: Path) -> Report:
    for name, document in (("source", source), ("target", target)):
        (folder / f"{name}-symbol.json").write_text(json.dumps(document), encoding="utf-8")
    return regraft.verify(str(folder / "source-symbol.json"), str(folder / "target-symbol.json"), DATA)


def test_nets_without_parameters_are_compared_by_their_outputs(tmp_path: Path) -> None:
    report = verified(activation("relu", "a"), activation("relu", "b"), tmp_path)
    assert report.passed
    assert report.render().startswith("equal to what was read: 3 outputs")
    assert "paired: nothing, neither net has parameters" in report.render()


def test_nets_without_parameters_that_differ_are_different(tmp_path: Path) -> None:
    report = verified(activation("relu", "a"), activation("tanh", "a"), tmp_path)
    assert not report.passed
    assert report.render().startswith("DIFFERENT: 3 outputs")


def test_an_operator_more_that_changes_nothing_is_no_difference(tmp_path: Path) -> None:
    plus = node("_plus_scalar", "a", [0], scalar="0")
    more = symbol(node("null", "data", []), plus, node("Activation", "b", [1], act_type="relu"))
    assert verified(activation("relu", "a"), more, tmp_path).passed


def test_parameters_on_one_side_only_are_a_difference(tmp_path: Path) -> None:
    report = verified(activation("relu", "a"), NORMALISED, tmp_path)
    assert not report.passed
    assert "only in the target: `conv.weight`" in report.render()


def test_symbols_without_values_are_given_equal_ones(tmp_path: Path) -> None:
    report = verified(NORMALISED, copy.deepcopy(NORMALISED), tmp_path)
    assert report.passed
    assert "6 of 6 parameters moved an output" in report.render()
    assert any("those of one name and shape were drawn alike" in note for note in report.notes)


@pytest.mark.parametrize(
    ("op", "attribute", "value"), [("BatchNorm", "eps", "0.1"), ("Convolution", "pad", "(1, 1)")]
)
def test_symbols_without_values_that_differ_are_different(
    op: str, attribute: str, value: str, tmp_path: Path
) -> None:
    other = copy.deepcopy(NORMALISED)
    next(n for n in other["nodes"] if n["op"] == op)["attrs"][attribute] = value
    report = verified(NORMALISED, other, tmp_path)
    assert not report.passed
    assert report.first_divergence in ("conv#1", "bn#1")
