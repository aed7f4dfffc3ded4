"""Attention layers in emitted source: their parts, or MindSpore's own where it is equal; both train."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.checkpoints.convert import convert_checkpoint
from regraft.frontends.python_file import load_object
from regraft.verification import verify

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mindspore_attention")]


class Mixed(nn.Module):
    """Its own attention, one over a memory of another width, and one whose mask is an input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.own = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.across = nn.MultiheadAttention(8, 4, kdim=6, vdim=6, bias=False, batch_first=True)
        self.masked = nn.MultiheadAttention(8, 2, add_zero_attn=False, batch_first=True)
        self.register_buffer("after", nn.Transformer.generate_square_subsequent_mask(5))
        self.own.in_proj_weight.requires_grad_(False)

    def forward(self, x, memory, padding):
        x = x + self.own(x, x, x, attn_mask=self.after, need_weights=False, is_causal=True)[0]
        x, weights = self.across(x, memory, memory)
        return self.masked(x, x, x, key_padding_mask=padding, need_weights=False)[0], weights


@pytest.fixture(scope="module", params=[False, True], ids=["parts", "layers"])
def pair(request, tmp_path_factory):
    random = np.random.default_rng(0)
    x, memory = (random.standard_normal(s).astype(np.float32) for s in ((2, 5, 8), (2, 7, 6)))
    padding = np.zeros((2, 5), bool)
    padding[0, 3:] = padding[1] = True  # one sequence is all padding
    net = Mixed()
    graph = regraft.load(net, (x, memory, padding))
    folder = tmp_path_factory.mktemp("attention") / "out"
    regraft.save(regraft.rewrite(graph).graph, folder, to="mindspore", attention_layers=request.param)
    return net, graph, folder


def test_layers_are_whole_on_request_where_mindspores_are_equal(pair, request):
    text = (pair[2] / "model.py").read_text()
    whole = request.node.callspec.params["pair"]
    assert text.count("nn.MultiheadAttention(") == (2 if whole else 0)
    assert ("kdim=6" in text) == whole
    assert "class MultiheadAttention(nn.Cell)" in text  # NaN where torch gives 0, were it MindSpore's


def test_parameters_keep_the_names_of_the_source(pair):
    rows = json.loads((pair[2] / "renames.json").read_text())["parameters"]
    assert {row["transform"] for row in rows} == {"identity"}
    assert all(row["source"] == row["target"] for row in rows)
    assert {"own.in_proj_weight", "own.out_proj.bias", "across.k_proj_weight"} <= {r["target"] for r in rows}


def test_they_compute_and_train_the_same(pair):
    _, graph, folder = pair
    report = verify(graph, folder, train=True)
    assert report.passed, report.summary()
    rows = {row.parameter: row for row in report.training}
    assert rows["across.q_proj_weight"].gradient_max_abs is not None
    assert rows["masked.in_proj_weight"].gradient_max_abs is not None
    compared = {row.call for row in report.modules if row.isolated_passed}
    assert {"own#1", "across#1", "masked#1"} <= compared


@pytest.mark.parametrize(
    ("pair", "old", "new"),
    [
        (False, ".shape[1], 2, 4)", ".shape[1], 4, 2)"),
        (False, "q + y", "q"),
        (True, "nn.MultiheadAttention(8, 2", "nn.MultiheadAttention(8, 4"),
        (True, ", attn_mask=self.after", ""),
    ],
    indirect=["pair"],
    ids=["heads of a part", "mask of the parts", "heads of the layer", "mask of the layer"],
)
def test_a_wrong_layer_is_named(pair, tmp_path, old, new):
    _, graph, folder = pair
    text = (folder / "model.py").read_text()
    assert old in text
    for name in ("model.ckpt", "renames.json"):  # imported before, the folder may hold bytecode too
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "model.py").write_text(text.replace(old, new))
    report = verify(graph, tmp_path)
    assert not report.passed
    assert report.first_divergence.startswith("own#1")


def test_parameters_are_drawn_as_in_the_source(pair):
    net = load_object(f"{pair[2] / 'model.py'}:build", {"checkpoint": None})
    values = {name: p.asnumpy() for name, p in net.parameters_dict().items()}
    assert not values["own.out_proj.bias"].any()  # MindSpore's own is uniform
    bound = np.sqrt(6 / (24 + 8))
    assert 0.9 * bound < np.abs(values["masked.in_proj_weight"]).max() <= bound
    assert not net.own.in_proj_weight.requires_grad


def test_weights_follow_in_both_directions(pair, tmp_path):
    net, _, folder = pair
    trained = {name: torch.randn_like(value) for name, value in net.state_dict().items()}
    torch.save(trained, tmp_path / "there.pth")
    convert_checkpoint(tmp_path / "there.pth", tmp_path / "there.ckpt", folder / "renames.json")
    convert_checkpoint(tmp_path / "there.ckpt", tmp_path / "back.pth", folder / "renames.json")
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    assert {n: v.shape for n, v in back.items()} == {n: v.shape for n, v in trained.items()}
    assert all(torch.equal(back[name], value) for name, value in trained.items())


def test_twelve_blocks_are_short(tmp_path):
    """ViT-B/16's structure: its attention is one class, its twelve blocks are one line."""

    layer = nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, activation="gelu", batch_first=True)
    net = nn.TransformerEncoder(layer, 12, norm=nn.LayerNorm(16), enable_nested_tensor=False)
    graph = regraft.load(net, (np.zeros((2, 5, 16), np.float32),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert len(text.splitlines()) <= 140
    assert text.count("class MultiheadAttention") == text.count("self.self_attn = ") == 1


class Thrice(nn.Module):
    """One layer, of whose calls the last alone is read of its weights."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, y):
        x = self.attend(x, x, x)[0]
        x = self.attend(x, y, y)[0]
        return self.attend(x, x, y)


def test_a_layer_whose_calls_differ_is_whole(tmp_path):
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((2, 5, 8)).astype(np.float32) for _ in range(2)]
    graph = regraft.load(Thrice().eval(), inputs)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    report = verify(graph, tmp_path / "net")
    assert report.passed, report.summary()
    assert (tmp_path / "net" / "model.py").read_text().count("self.attend(x, ") == 3
