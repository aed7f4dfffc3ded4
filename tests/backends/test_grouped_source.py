"""MindSpore source of models without module structure: grouped, readable, and still the source's numbers."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import regraft
from regraft.backends.mindspore_source import emit_source
from regraft.cli import main

from ..corpora.mxnet import gluon
from ..corpora.mxnet.cases import cases

pytestmark = pytest.mark.xdist_group("mindspore_grouped")
GOLDEN = Path(__file__).parent / "golden"
FAMILIES = {
    "resnet": lambda: gluon.resnet_v1([2, 1, 3], bottleneck=True),
    "resnext": lambda: gluon.resnet_v1([1, 2, 2], bottleneck=True, width=16, widening=0.25),
    "mobilenet": gluon.mobilenet,
    "densenet": lambda: gluon.densenet([3, 4, 2]),
    "inception": gluon.inception,
}
CLASSES = {
    "resnet": ["Bottleneck"],
    "resnext": ["Bottleneck"],
    "mobilenet": ["DepthwiseSeparable"],
    "densenet": ["DenseLayer"],
    "inception": ["ConvBNReLU", "InceptionBlock"],
}


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the header of model.py says what the source was called


def loaded(symbol, folder, name):
    return regraft.load(symbol.write(folder, name).name, ("2x3x32x32",))


def classes(text):
    return [line.split()[1].split("(")[0] for line in text.splitlines() if line.startswith("class ")]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_a_few_classes_and_equal_module_by_module(family, tmp_path, update_goldens):
    graph = loaded(FAMILIES[family](), tmp_path, family)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert classes(text) == [*CLASSES[family], family.capitalize()]
    report = regraft.verify(graph, tmp_path / "out")
    assert report.passed, report.render()
    assert all(row.passed for row in report.modules)  # every layer, found under its new path
    assert len(report.modules) == len(graph.modules) - 1
    golden = GOLDEN / f"mxnet_{family}.py"
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()


def test_a_siamese_net_is_one_branch_called_twice(tmp_path, update_goldens):
    """The symbol has every layer twice, on the same weights."""
    case = cases("models")["net/siamese"]
    graph = regraft.load(case.write(tmp_path).name, case.inputs())
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert classes(text) == ["Branch", "Siamese"]
    report = regraft.verify(graph, tmp_path / "out", case.inputs())
    assert report.passed, report.render()
    assert [row.call for row in report.modules if row.passed] == [
        f"{run}_{layer}#1" for run in "ab" for layer in ("conv0", "conv1", "fc0", "fc1")
    ]
    golden = GOLDEN / "mxnet_siamese.py"
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()


def test_resnet50_of_gluon_is_a_stem_a_bottleneck_and_four_stages(tmp_path):
    graph = loaded(gluon.resnet_v1([3, 4, 6, 3], bottleneck=True), tmp_path, "resnet50_v1")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert len(text.splitlines()) <= 150
    assert classes(text) == ["Bottleneck", "Resnet50V1"]
    assert "*[Bottleneck(64, 16) for _ in range(5)]," in text
    body = text[text.rindex("def construct") : text.index("CHECKPOINT")]
    assert [line.strip() for line in body.splitlines() if "stage" in line] == [
        f"x = self.stage{n}(x)" for n in (1, 2, 3, 4)
    ]


def test_graph_mode_computes_what_pynative_does(tmp_path):
    import mindspore as ms

    graph = loaded(FAMILIES["resnet"](), tmp_path, "resnet")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    spec = importlib.util.spec_from_file_location("grouped_resnet", tmp_path / "out" / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["grouped_resnet"] = module  # MindSpore reads the source of classes by way of their module
    spec.loader.exec_module(module)
    x = np.random.default_rng(0).normal(size=(3, 3, 32, 32)).astype(np.float32)
    results = []
    try:
        for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            ms.set_context(mode=mode)
            results.append(module.build()(ms.Tensor(x)).asnumpy())
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
        del sys.modules["grouped_resnet"]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_renames_lead_from_mxnets_names_to_the_new_ones_and_back(tmp_path):
    graph = loaded(FAMILIES["resnet"](), tmp_path, "resnet")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    document = json.loads((tmp_path / "out" / "renames.json").read_text())
    rows = {row["source"]: row for row in document["parameters"]}
    held = {p.declared: paths[0] for p in graph.parameters() if (paths := graph.parameter_paths()[p.key])}
    assert {source: row["source_path"] for source, row in rows.items()} == held
    assert rows["resnetv10_stage1_conv4_weight"]["target"] == "stage1.1.conv1.weight"
    assert rows["resnetv10_stage1_batchnorm3_gamma"]["target"] == "stage1.0.downsample.1.gamma"
    assert rows["resnetv10_conv0_weight"]["target"] == "conv0.weight"
    assert document["modules"]["resnetv10_stage1_conv4_fwd"] == "stage1.1.conv1"
    assert len({row["target"] for row in rows.values()}) == len(rows)


def test_checkpoints_convert_in_both_directions(tmp_path):
    graph = loaded(FAMILIES["mobilenet"](), tmp_path, "mobilenet")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    source, emitted = tmp_path / "mobilenet-0000.params", tmp_path / "out" / "model.ckpt"
    renames = tmp_path / "out" / "renames.json"
    there, back = tmp_path / "there.ckpt", tmp_path / "back.params"
    regraft.convert_checkpoint(source, there, renames)
    assert regraft.diff(there, emitted).equal
    regraft.convert_checkpoint(emitted, back, renames)
    assert regraft.diff(back, source).equal


def test_mxnet_and_onnx_outputs_keep_the_sources_names(tmp_path):
    graph = loaded(FAMILIES["resnet"](), tmp_path, "resnet")
    rewritten = regraft.rewrite(graph)
    regraft.rewrite_file(graph, rewritten, tmp_path / "again", "mxnet")
    symbol = json.loads((tmp_path / "again" / "resnet-symbol.json").read_text())
    before = json.loads((tmp_path / "resnet-symbol.json").read_text())
    assert {n["name"] for n in symbol["nodes"]} == {n["name"] for n in before["nodes"]}
    assert regraft.diff(tmp_path / "again" / "resnet-0000.params", tmp_path / "resnet-0000.params").equal
    assert {m.class_name for m in rewritten.graph.modules} >= {"Convolution", "BatchNorm"}
    assert "resnetv10_conv0_fwd" in {rewritten.graph.modules.path(m.key) for m in rewritten.graph.modules}


def test_group_false_leaves_the_model_flat(tmp_path):
    rewritten = regraft.rewrite(loaded(FAMILIES["resnet"](), tmp_path, "resnet"))
    regraft.save(rewritten.graph, tmp_path / "flat", to="mindspore", group=False)
    text = (tmp_path / "flat" / "model.py").read_text()
    assert classes(text) == ["Resnet"]
    assert text.split('"""', 2)[2] == emit_source(rewritten.graph).split('"""', 2)[2]


def test_the_command_groups_and_only_pass_does_not(tmp_path):
    path = FAMILIES["mobilenet"]().write(tmp_path, "mobilenet")
    command = ["rewrite", str(path), "--input", "2x3x32x32", "--to", "mindspore", "--no-verify"]
    for folder, more in (("grouped", []), ("flat", ["--only-pass", "eliminate-identities"])):
        done = CliRunner().invoke(main, [*command, "-o", str(tmp_path / folder), *more])
        assert done.exit_code == 0, done.output
    assert "class DepthwiseSeparable" in (tmp_path / "grouped" / "model.py").read_text()
    assert "class DepthwiseSeparable" not in (tmp_path / "flat" / "model.py").read_text()


def test_values_follow_the_names(tmp_path):
    """The checkpoint holds every tensor of MXNet's file under its new name."""
    graph = loaded(FAMILIES["densenet"](), tmp_path, "densenet")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    report = regraft.diff(
        tmp_path / "densenet-0000.params", tmp_path / "out" / "model.ckpt", tmp_path / "out" / "renames.json"
    )
    assert report.equal
