"""Two nets written apart: paired whatever their names, compared on equal weights, usual mistakes named."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn as tnn

import regraft
from regraft import load_tree
from regraft.ir import Graph, ModelError, parse
from regraft.verification import Report, read_pair_map
from regraft.verification.braces import braced
from regraft.verification.two_nets.laws import LawRow, compare_laws
from regraft.verification.two_nets.operator_settings import Side
from regraft.verification.two_nets.pair_map import PairMap
from regraft.verification.two_nets.pairing import pair
from regraft.verification.two_nets.samples import Distribution, one_sample, two_samples

nn, ops = ms.nn, ms.ops

ROOT = Path(__file__).resolve().parents[2]
IMAGES = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)


class Original(tnn.Module):
    """The source: every kind of layer that ports get wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = tnn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False)
        self.bn1 = tnn.BatchNorm2d(6)
        self.act = tnn.LeakyReLU(0.1)
        self.conv2 = tnn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.bn2 = tnn.BatchNorm2d(6)
        self.gelu = tnn.GELU()
        self.ln = tnn.LayerNorm(6)
        self.drop = tnn.Dropout(0.25)
        self.fc1 = tnn.Linear(6, 6)
        self.fc2 = tnn.Linear(6, 4)

    def forward(self, x):
        x = self.act(self.bn1(self.conv1(x)))
        x = self.gelu(self.bn2(self.conv2(x)) + x)
        x = self.drop(self.ln(x.mean((2, 3))))
        return self.fc2(torch.relu(self.fc1(x)))


class Port(nn.Cell):
    """The same by another hand, right but for one mistake."""

    def __init__(self, mistake: str = "", law: object = None) -> None:
        super().__init__()
        self.mistake = mistake
        wrong = lambda name, bad, good: bad if mistake == name else good  # noqa: E731
        same = {"pad_mode": "same"} if mistake == "pad_mode" else {"pad_mode": "pad", "padding": 1}
        self.stem = nn.Conv2d(3, 6, 3, 2, weight_init=law, **same)
        self.stem_norm = nn.BatchNorm2d(6, eps=wrong("eps", 1e-3, 1e-5), momentum=wrong("momentum", 0.1, 0.9))
        self.leaky = nn.LeakyReLU(wrong("slope", 0.01, 0.1))
        self.body = nn.Conv2d(6, 6, 3, pad_mode="pad", padding=1, weight_init=law)
        self.body_norm = nn.BatchNorm2d(6)
        self.gelu = nn.GELU(approximate=mistake == "gelu")
        self.norm = nn.LayerNorm((6,), epsilon=wrong("layernorm", 1e-7, 1e-5))
        self.drop = nn.Dropout(p=wrong("dropout", 0.75, 0.25))
        self.hidden = nn.Dense(6, 6)
        self.head = nn.Dense(6, 4, has_bias=mistake != "bias")

    def construct(self, x):
        x = self.stem(x)
        x = self.stem_norm(self.leaky(x)) if self.mistake == "order" else self.leaky(self.stem_norm(x))
        y = self.body_norm(self.body(x))
        x = self.gelu(y if self.mistake == "shortcut" else y + x)
        x = self.drop(self.norm(x.mean((2, 3))))
        return self.head(ops.relu(self.hidden(x)))


@pytest.fixture(scope="module")
def source() -> Graph:
    torch.manual_seed(0)
    net = Original()
    with torch.no_grad():  # as after some training: the statistics tell eps and order
        net.bn1.running_var.uniform_(0.05, 0.2)
        net.bn1.running_mean.normal_()
    return regraft.load(net, (torch.from_numpy(IMAGES),))


def compared(source: Graph, target: object, **options: object) -> Report:
    return regraft.verify(source, target, **options)


def settings(report: Report) -> dict[str, str]:
    """Path in the source -> the settings that differ."""
    return {row.module: str(row) for row in report.nets.settings if not row.structure}


# -- a right port --------------------------------------------------------------------------------------


def test_right_port_passes_and_trains_the_same(source: Graph) -> None:
    port = Port()
    before = {p.name: p.asnumpy().copy() for p in port.get_parameters()}
    report = compared(source, port, train=True)
    assert report.passed, report.render()
    assert report.nets.copied
    assert {p.source: p.target for p in report.nets.pairs}["bn2.running_var"] == "body_norm.moving_variance"
    assert len(report.nets.pairs) == 16
    assert not report.nets.settings
    compared_modules = {row.call for row in report.modules if row.passed}
    assert {"conv1#1", "act#1", "gelu#1", "drop#1", "fc2#1"} <= compared_modules
    assert all(row.passed for row in report.training)
    assert all(np.array_equal(p.asnumpy(), before[p.name]) for p in port.get_parameters())


def test_report_as_json_and_text(source: Graph) -> None:
    report = compared(source, Port("slope", "Uniform"))
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["nets"]["modules"]["conv1"] == "stem"
    laws = {row["parameter"]: row for row in data["nets"]["laws"]}
    assert laws["conv1.weight"]["remedy"] == "weight_init=HeUniform(math.sqrt(5))"
    text = report.render(brief=True)
    assert "2 Conv2d `stem`, `body`" in text
    assert "weight: he_uniform(a=2.236) in the source, uniform(±0.07) in the target" in text
    assert "first divergence: act#1 (`leaky` in the target): alpha 0.1 against 0.01" in text


# -- wrong ports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "module", "difference"),
    [
        ("pad_mode", "conv1", "padding [1, 1] against [0, 0, 1, 1]"),
        ("eps", "bn1", "epsilon 1e-05 against 0.001"),
        ("slope", "act", "alpha 0.1 against 0.01"),
        ("gelu", "gelu", "approximate none against tanh"),
        ("layernorm", "ln", "epsilon 1e-05 against 1e-07"),
    ],
)
def test_mistake_is_named_at_its_module(source: Graph, mistake: str, module: str, difference: str) -> None:
    report = compared(source, Port(mistake))
    assert not report.passed
    assert settings(report) == {module: difference}
    if mistake != "layernorm":  # whose two epsilons are within float32's rounding here
        assert report.first_divergence == f"{module}#1"
        assert f"against {difference.split(' against ')[1]}" in report.nets.blamed(f"{module}#1")[0]


@pytest.mark.parametrize(
    ("mistake", "difference"),
    [
        ("shortcut", "call `self.bn2(self.conv2(x)) + x` (test_nets.py:49) against none"),
        ("order", "order of calls bn1, act, conv2 against act, bn1, conv2"),
    ],
)
def test_mistake_between_modules_is_named_at_what_holds_them(
    source: Graph, mistake: str, difference: str
) -> None:
    report = compared(source, Port(mistake))
    assert not report.passed
    assert difference in {str(row) for row in report.nets.settings}
    assert len(report.nets.pairs) == 16
    text = report.render(brief=True)
    assert difference in text
    assert not re.search(r"`(.+)` in place of `\1`", text)


class Sloped(tnn.Module):
    """A layer with a setting between two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = tnn.Linear(4, 4)
        self.act = tnn.LeakyReLU(0.1)

    def forward(self, x):
        return torch.tanh(self.act(torch.sin(self.fc(x))))


class SlopedPort(nn.Cell):
    """The same with another slope, and with a wrong function where one is given."""

    def __init__(self, before: Callable = ops.sin, behind: Callable = ops.tanh) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.act = nn.LeakyReLU(0.3)
        self.before, self.behind = before, behind

    def construct(self, x):
        return self.behind(self.act(self.before(self.fc(x))))


@pytest.mark.parametrize(
    ("port", "other"),
    [((), ""), ((ops.cos,), "ops.sin"), ((ops.sin, ops.sigmoid), "ops.tanh")],
    ids=["alone", "before", "behind"],
)
def test_a_mistake_beside_a_setting_is_named_too(port: tuple[Callable, ...], other: str) -> None:
    torch.manual_seed(0)
    rows = torch.randn(3, 4)
    report = regraft.verify(Sloped(), SlopedPort(*port), (rows,), copy=True)
    text = report.render(brief=True)
    assert not report.passed
    assert "alpha 0.1 against 0.3" in text
    assert ("in place of" in text) == bool(other), text
    assert other in text


@pytest.mark.parametrize(
    ("mistake", "module", "difference"),
    [("momentum", "bn1", "momentum 0.9 against 0.1"), ("dropout", "drop", "ratio 0.25 against 0.75")],
)
def test_mistake_that_only_training_shows(source: Graph, mistake: str, module: str, difference: str) -> None:
    port = Port(mistake)
    report = compared(source, port, train=True)
    assert not report.passed
    assert settings(report) == {module: difference}
    if mistake == "momentum":
        assert report.training_divergence.startswith("bn1.running_")


def test_parameter_that_one_side_lacks_is_a_difference(source: Graph) -> None:
    report = compared(source, Port("bias"))
    assert not report.passed
    assert report.nets.only_source == ["fc2.bias"]
    assert "only in the source: `fc2.bias`\n  write: has_bias=True in `head`" in report.render()


# -- pairing -------------------------------------------------------------------------------------------


class Heads(tnn.Module):
    """Two layers of one shape and one input."""

    def __init__(self, first: str, second: str, swapped: bool = False) -> None:
        super().__init__()
        self.names = (second, first) if swapped else (first, second)
        setattr(self, first, tnn.Linear(4, 3))
        setattr(self, second, tnn.Linear(4, 3))

    def forward(self, x):
        return tuple(getattr(self, name)(x) for name in self.names)


class Chain(tnn.Module):
    """Layers of one shape in a row, of which one side may have one less."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        for name in names:
            setattr(self, name, tnn.Linear(4, 4))

    def forward(self, x):
        for name in self.names:
            x = torch.tanh(getattr(self, name)(x))
        return x


def paired(first: tnn.Module, second: tnn.Module, mapping: PairMap | None = None) -> dict[str, str]:
    graphs = [regraft.load(net, (torch.ones(2, 4),)) for net in (first, second)]
    pairs = pair(*graphs, mapping).parameters.values()
    return {p.source: p.target for p in pairs if p.source.endswith("weight")}


def test_outputs_tell_layers_of_one_shape_apart() -> None:
    found = paired(Heads("cls", "box"), Heads("scores", "boxes"))
    assert found == {"cls.weight": "scores.weight", "box.weight": "boxes.weight"}


def test_names_come_before_the_order_of_calls() -> None:
    found = paired(Heads("cls", "box"), Heads("cls", "box", swapped=True))
    assert found == {"cls.weight": "cls.weight", "box.weight": "box.weight"}


class Summed(Heads):
    """Nothing but the order of the calls tells the two apart."""

    def forward(self, x):
        first, second = super().forward(x)
        return torch.sigmoid(first) + torch.tanh(second)


def test_pair_by_the_order_of_calls_alone_is_noted() -> None:
    graphs = [regraft.load(Summed(*n), (torch.ones(2, 4),)) for n in (("a", "b"), ("first", "second"))]
    found = pair(*graphs)
    assert found.layers == {"a": "first", "b": "second"}
    assert "`a` with `first`, `b` with `second`" in found.notes[0]
    assert "--map" in found.notes[0]


def test_ambiguity_is_refused_with_candidates() -> None:
    source, target = Chain("a", "b", "c", "d"), Chain("x", "y", "z")
    with pytest.raises(ModelError, match="only in the source: `d`") as error:
        paired(source, target)
    assert error.value.code == "E703"
    assert '{"a": "x"}' in str(error.value)
    assert "only in the target: `z` [4, 4] (near" in str(error.value)
    found = paired(source, target, PairMap({"b": "y"}, frozenset({"c"})))
    assert found == {"a.weight": "x.weight", "b.weight": "y.weight", "d.weight": "z.weight"}


@pytest.mark.parametrize(
    "document",
    [{"a.weight": "second.weight"}, {"a": "second", "b": "first"}, {"": "", "a": "second", "b": "first"}],
    ids=["a parameter", "modules", "the root"],
)
def test_map(document: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(json.dumps(document))
    mapping = read_pair_map(tmp_path / "map.json")
    found = paired(Summed("a", "b"), Summed("first", "second"), mapping)
    assert found == {"a.weight": "second.weight", "b.weight": "first.weight"}


def test_renames_json_is_a_map(tmp_path: Path) -> None:
    graph = regraft.load(Summed("a", "b"), (torch.ones(2, 4),))
    regraft.save(graph, tmp_path / "out", "mindspore")
    mapping = read_pair_map(tmp_path / "out" / "renames.json")
    assert mapping.pairs["b.weight"] == "b.weight"
    assert paired(Summed("a", "b"), Summed("b", "a"), mapping)["a.weight"] == "a.weight"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected an object of paths"),
        ('{"a": 1}', "expected an object of paths"),
        ('{"a": "x", "b": "x"}', "several paths"),
        ("{", "expected JSON: .*map.json, byte 1"),
        ("[" * 100_000, "nested too deep"),
        ('{"format": "regraft-renames", "version": 1, "parameters": 3}', "a list of rows"),
        ('{"format": "regraft-renames", "version": 9}', "version 1"),
    ],
)
def test_malformed_map_is_one_clear_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(ModelError, match=message):
        read_pair_map(tmp_path / "map.json")


def test_name_of_a_map_that_no_side_has_is_refused() -> None:
    with pytest.raises(ModelError, match=r"`firts` is neither a module .* near: `first`"):
        paired(Summed("a", "b"), Summed("first", "second"), PairMap({"a": "firts"}))


# -- weights -------------------------------------------------------------------------------------------


def test_weight_that_was_not_carried_over_is_named() -> None:
    torch.manual_seed(0)
    first, second = Summed("a", "b"), Summed("first", "second")
    second.first.load_state_dict(first.a.state_dict())
    report = regraft.verify(first, second, (torch.ones(2, 4),))
    assert not report.passed
    assert report.nets.differing == ["b.weight", "b.bias"]
    assert report.first_divergence == "b#1"
    assert regraft.verify(first, second, (torch.ones(2, 4),), copy=True).passed


# -- initial distributions -----------------------------------------------------------------------------


class Drawn(tnn.Module):
    """A layer of each kind, drawn anew."""

    def __init__(self, draw: Callable[[tnn.Module], object] | None = None) -> None:
        super().__init__()
        self.table = tnn.Embedding(300, 32)
        self.fc = tnn.Linear(32, 64)
        if draw is not None:
            draw(self)

    def forward(self, ids):
        return self.fc(self.table(ids))


class DrawnPort(nn.Cell):
    """The same in MindSpore."""

    def __init__(self, **laws: object) -> None:
        super().__init__()
        self.embed = nn.Embedding(300, 32)
        self.dense = nn.Dense(32, 64, **laws)

    def construct(self, ids):
        return self.dense(self.embed(ids))


def laws_of(source: object, target: object) -> dict[str, LawRow]:
    found = compare_laws(pair(load_tree(source), load_tree(target)))
    return {row.parameter: row for row in found}


def test_laws_of_embedding_and_dense_and_what_mends_them() -> None:
    torch.manual_seed(0)
    rows = laws_of(Drawn(), DrawnPort(weight_init="normal", bias_init="zeros"))
    assert {n: r.remedy for n, r in rows.items()} == {
        "table.weight": "embedding_table=Normal(1.0)",
        "fc.weight": "weight_init=HeUniform(math.sqrt(5))",
        "fc.bias": "bias_init=Uniform(0.1768)",
    }
    assert rows["fc.weight"].probability < 1e-3
    assert rows["fc.weight"].target_law == "normal(std=0.01)"  # though Dense does not keep what it was given


def test_remedy_is_what_it_says() -> None:
    import math

    from mindspore.common.initializer import HeUniform, Normal, Uniform

    known = {"math": math, "HeUniform": HeUniform, "Normal": Normal, "Uniform": Uniform}
    torch.manual_seed(0)
    source = Drawn()
    rows = laws_of(source, DrawnPort(weight_init="normal", bias_init="zeros"))
    written = ", ".join(rows[name].remedy for name in ("fc.weight", "fc.bias"))
    mended = eval(f"DrawnPort({written})", {**known, "DrawnPort": DrawnPort})
    mended.embed = nn.Embedding(300, 32, embedding_table=Normal(1.0))
    assert all(row.passed for row in laws_of(source, mended).values())


def test_values_that_are_no_fresh_draw_are_not_judged() -> None:
    torch.manual_seed(0)

    def trained(net: tnn.Module) -> None:
        with torch.no_grad():
            net.fc.weight.copy_(net.fc.weight.pow(5) * 100 + 0.3)

    rows = laws_of(Drawn(), Drawn(trained))
    assert rows["fc.weight"].passed is None
    assert "trained or loaded" in rows["fc.weight"].reason
    assert rows["table.weight"].passed


def test_custom_law_is_told_from_the_values() -> None:
    torch.manual_seed(0)
    rows = laws_of(Drawn(lambda net: tnn.init.normal_(net.fc.weight, std=0.05)), Drawn())
    assert rows["fc.weight"].passed is False
    assert rows["fc.weight"].source_law.startswith(("normal(std=0.05", "normal(std=0.04"))
    assert rows["fc.weight"].remedy.startswith("nn.init.normal_(layer.weight, std=0.0")


def test_equal_laws_pass_for_every_seed() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        assert all(row.passed for row in laws_of(Drawn(), Drawn()).values())


def test_statistics_are_those_of_scipy() -> None:
    from scipy import stats

    random = np.random.default_rng(0)
    for sizes, scale in (((100, 500), 1.0), ((3000, 3000), 1.1), ((20000, 70000), 1.02)):
        a, b = (np.sort(random.standard_normal(n) * s) for n, s in zip(sizes, (1.0, scale), strict=True))
        expected = stats.ks_2samp(a, b)
        statistic, probability = two_samples(a, b)
        assert statistic == pytest.approx(expected.statistic, abs=1e-12)
        assert probability == pytest.approx(expected.pvalue, rel=0.05, abs=1e-6)
        assert one_sample(b, Distribution("normal", (0.0, 1.0))) == pytest.approx(
            stats.kstest(b, "norm").pvalue, rel=0.05, abs=1e-6
        )


# -- text ----------------------------------------------------------------------------------------------


def test_names_are_folded_as_a_shell_would() -> None:
    blocks = [f"layer{i}.{j}.conv{k}" for i in (1, 4) for j in range(3) for k in (1, 2, 3)]
    assert braced(["stem", *blocks, "layer1.0.shortcut.0"]) == [
        "stem",
        "layer{1,4}.{0..2}.conv{1..3}",
        "layer1.0.shortcut.0",
    ]


class Inside(tnn.Module):
    """The activation in the block."""

    def __init__(self, slope: float = 0.0) -> None:
        super().__init__()
        self.block = tnn.Sequential(tnn.Linear(4, 4), tnn.LayerNorm(4), tnn.ReLU())
        self.last = tnn.LeakyReLU(slope)

    def forward(self, x):
        return self.last(self.block(x) - 0.5)


class Outside(Inside):
    """The activation after the block."""

    def __init__(self, slope: float = 0.0) -> None:
        super().__init__(slope)
        self.stage = tnn.Sequential(self.block[0], self.block[1])
        del self.block

    def forward(self, x):
        return self.last(torch.relu(self.stage(x)) - 0.5)


def test_boundary_that_lies_elsewhere_is_no_divergence() -> None:
    inputs = (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),)
    assert regraft.verify(Inside(), Outside(), inputs).passed
    report = regraft.verify(Inside(), Outside(0.3), inputs)
    rows = {row.call: row for row in report.modules}
    assert rows["block#1"].reason == "its boundary lies elsewhere in the target"
    assert rows["block.1#1"].passed
    assert report.first_divergence == "last#1"
    assert str(report.nets.settings[0]) == "alpha 0 against 0.3"


class Squashed(tnn.Module):
    """An activation whose inputs are small, whatever the net's are."""

    def __init__(self, act: type[tnn.Module] = tnn.ReLU) -> None:
        super().__init__()
        self.fc = tnn.Linear(4, 4)
        self.act = act()
        self.out = tnn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.act(torch.tanh(self.fc(x))))


def test_another_activation_is_named_where_the_values_of_the_net_do_not_show_it() -> None:
    inputs = (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),)
    assert regraft.verify(Squashed(), Squashed(), inputs).passed
    report = regraft.verify(Squashed(), Squashed(tnn.ReLU6), inputs)
    assert not report.passed
    assert all(row.passed for row in report.outputs)
    assert report.nets.blamed(report.first_divergence)[0] == "act#1: layer ReLU against ReLU6"
    assert "write: what computes the source's `ReLU`" in report.render(brief=True)


class Attending(tnn.Module):
    """Attention in one function, or written out without its scale."""

    def __init__(self, written: bool = False) -> None:
        super().__init__()
        self.written = written
        self.qkv = tnn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        if self.written:
            return torch.softmax(q @ k.transpose(1, 2), -1) @ v
        return tnn.functional.scaled_dot_product_attention(q, k, v)


def test_operators_of_what_one_side_has_in_one_function_are_not_counted() -> None:
    inputs = (torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)),)
    report = regraft.verify(Attending(), Attending(written=True), inputs)
    assert not report.passed
    [row] = report.nets.settings
    assert str(row) == (
        "call `tnn.functional.scaled_dot_product_attention(q, k, v)` against "
        "`torch.softmax(q @ k.transpose(1, 2), -1) @ v`"
    )


def test_a_kernel_of_an_unknown_size_leaves_the_padding_open() -> None:
    net = parse(
        """
        graph main {
          %x = input "x" : f32[1,1,40,9]
          %kernel = input "kernel" : f32[1,1,K,3]
          %y = Conv(%x, %kernel) {group=1, strides=[2, 1]} : f32[1,1,?,7]
          return "y" = %y
        }
        """
    )
    [read] = Side(net, net.operators()).read("Conv")
    assert "padding" not in read.values
    assert read.values["group"] == 1
