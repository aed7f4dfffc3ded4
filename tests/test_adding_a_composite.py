"""What a new composite that drops and is random needs: its row, and no list anywhere."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import regraft
from regraft.ir import COMPOSITES, parse, traits_of
from regraft.ir.composites import CompositeTable
from regraft.ir.composites.loss import nothing, same_type
from regraft.ir.operators import AttributeSpec
from regraft.ir.traits import Traits

ROOT = Path(__file__).resolve().parent.parent
KIND = "Dropout of channels, to a number"

TEXT = """
graph main {
  module "" Net {w=%w}
  module "drop" Drop
  %x = input "x" : f32[N,3,4]
  %w = param "w" : f32[4]
  %0 = Mul(%x, %w) : f32[N,3,4] @ "#1"
  %1 = regraft.ChannelAlphaDropout(%0) {ratio=0.25} : f32[N,3,4] @ "drop#1"
  %2 = regraft.ChannelAlphaDropout(%0) {ratio=0.25} : f32[N,3,4] @ "drop#1"
  %3 = Add(%1, %2) : f32[N,3,4] @ "#1"
  return "y" = %3
}
"""


@pytest.fixture
def composite(monkeypatch):
    """One row of a table; nothing else in this file registers anything."""
    table = CompositeTable()
    table.add(
        "ChannelAlphaDropout",
        inputs="X",
        attributes=[AttributeSpec("ratio", "float", required=True)],
        infer=same_type,
        expand=nothing,
        summary="X; in training whole channels are one number with probability ratio",
        traits=Traits(random=True, trains_differently=True, dropout=KIND),
    )
    monkeypatch.setitem(COMPOSITES, "ChannelAlphaDropout", table["ChannelAlphaDropout"])


def read(text=TEXT):
    graph = parse(text)
    for parameter in graph.parameters():
        parameter.data = regraft.ir.TensorData.of(np.arange(1, 5, dtype=np.float32))
    return graph


def dropping(graph):
    return [n.op_type for n in graph.operators() if n.traits.dropout]


@pytest.mark.usefixtures("composite")
def test_passes_keep_both_and_the_one_for_inference_removes_them():
    result = regraft.rewrite(read())
    assert dropping(result.graph) == ["ChannelAlphaDropout"] * 2
    assert not [change for change in result.changes if change.code == "DM104"]
    inference = regraft.rewrite(read(), passes=["prepare-for-inference"])
    assert dropping(inference.graph) == []
    assert [change.code for change in inference.changes] == ["PI102"] * 2


@pytest.mark.usefixtures("composite")
def test_onnx_has_its_expansion_and_the_report_says_what_is_not_there(tmp_path):
    graph = read()
    path = tmp_path / "net.onnx"
    regraft.save(graph, path, to="onnx")
    assert {n.op_type for n in onnx.load(path).graph.node} == {"Mul", "Add"}
    report = regraft.verify(graph, path)
    assert report.passed
    assert any("has no Dropout" in note and "0.25 in `drop`" in note for note in report.notes), report.notes


@pytest.mark.usefixtures("composite")
def test_two_nets_that_drop_otherwise_train_differently():
    from regraft.verification.structure.settings import compare_settings, settings_of

    mine, other = settings_of(read()), settings_of(read(TEXT.replace("0.25", "0.5", 1)))
    assert [(s.kind, s.value, s.module) for s in mine] == [(KIND, 0.25, "drop")] * 2
    (row,) = compare_settings(mine, other)
    assert (row.setting, row.source, row.target) == (KIND, 0.25, 0.5)
    assert compare_settings(mine, settings_of(read())) == []


def test_composites_that_drop_are_named_where_they_are_made_lowered_and_emitted_only():
    dropping = [name for name in COMPOSITES if traits_of(name, "regraft").dropout]
    assert dropping
    allowed = re.compile(r"ir/composites/|frontends/|backends/\w+/emitters/")
    for part in ("ir", "passes", "backends", "verification", "frontends"):
        for path in (ROOT / part).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not allowed.match(name):
                assert not any(each in path.read_text(encoding="utf-8") for each in dropping), name
