"""A layer that one net keeps whole and the other in parts: outputs prove its layout or nothing is written."""

import json
import runpy
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft
from regraft import load_tree
from regraft.ir import ModelError
from regraft.verification.two_nets.fusing import Layout

NETS = """
import torch
from mindspore import nn as mnn, ops
from torch import nn

WIDTH, HEADS = 8, 4

class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        y = nn.functional.scaled_dot_product_attention(*self.split(self.stem(x)))
        return self.proj(y.transpose(1, 2).flatten(2))

class ByHead(Stacked):
    def split(self, x):
        return self.qkv(x).unflatten(-1, (HEADS, 3, -1)).permute(3, 0, 2, 1, 4)

class Shuffled(Stacked):
    def split(self, x):
        y = self.qkv(x)[..., torch.arange(3 * WIDTH - 1, -1, -1)]
        return y.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

class Biased(ByHead):
    def forward(self, x):
        return super().forward(x) + 1e-4

class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.attention, self.proj = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), nn.Linear(WIDTH, 3)
        nn.init.normal_(self.attention.in_proj_bias)

    def forward(self, x):
        x = self.stem(x)
        return self.proj(self.attention(x, x, x, need_weights=False)[0])

class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.w12, self.w3 = nn.Linear(WIDTH, 32), nn.Linear(16, WIDTH)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, -1)
        return self.w3(nn.functional.silu(a) * b)

class ApartInTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.first(x)
        q, k, v = [p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.wq, self.wk, self.wv)]
        return self.last(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

class Apart(mnn.Cell):
    '''Calls k before q.'''
    def __init__(self, out=False):
        super().__init__()
        self.first = mnn.Dense(WIDTH, WIDTH)
        self.wq, self.wk, self.wv = [mnn.Dense(WIDTH, WIDTH) for _ in range(3)]
        self.wo = mnn.Dense(WIDTH, WIDTH) if out else None
        self.last = mnn.Dense(WIDTH, 3)

    def heads(self, x):
        return x.reshape(x.shape[0], x.shape[1], HEADS, -1).swapaxes(1, 2)

    def construct(self, x):
        x = self.first(x)
        k, q, v = self.heads(self.wk(x)), self.heads(self.wq(x)), self.heads(self.wv(x))
        scores = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / (WIDTH // HEADS) ** 0.5, -1)
        y = ops.matmul(scores, v).swapaxes(1, 2).reshape(x.shape)
        return self.last(y if self.wo is None else self.wo(y))

class GatedApart(mnn.Cell):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = mnn.Dense(WIDTH, 16), mnn.Dense(WIDTH, 16), mnn.Dense(16, WIDTH)

    def construct(self, x):
        return self.down(self.up(x) * ops.silu(self.gate(x)))

def apart_with_output():
    return Apart(True)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nets") / "attention.py"
    path.write_text(NETS)
    return path


def notes(report) -> str:
    return "\n".join(note for note in report.notes if " hold" in note)


@pytest.mark.parametrize(
    ("whole", "apart", "words", "turned"),
    [
        ("Stacked", "Apart", "`qkv` holds `wq`, `wk`, `wv`, rows one after another", False),
        ("ByHead", "Apart", "`qkv` holds `wq`, `wk`, `wv`, rows alternating by 4 heads", True),
        ("Packed", "apart_with_output", "`attention` holds `wq`, `wk`, `wv`, rows one after another", False),
        ("Gated", "GatedApart", "`w12` holds `gate`, `up`, rows one after another", True),
    ],
)
def test_the_map_joins_what_is_proved_and_carries_trained_weights_over(
    file, tmp_path, whole, apart, words, turned
):
    nets = [f"{file}:{whole}", f"{file}:{apart}"]
    report = regraft.verify(*(nets[::-1] if turned else nets), ["2x5x8"], write_map=tmp_path / "map.json")
    assert report.passed
    assert words in notes(report)
    torch.manual_seed(1)
    source, target = load_tree(nets[0]).origin.model.eval(), load_tree(nets[1]).origin.model.set_train(False)
    with torch.no_grad():
        for each in source.parameters():
            each.normal_()
    there, back = tmp_path / "b.ckpt", tmp_path / "c.pth"
    torch.save(source.state_dict(), tmp_path / "a.pth")
    regraft.convert_checkpoint(tmp_path / "a.pth", there, tmp_path / "map.json")
    assert ms.load_param_into_net(target, ms.load_checkpoint(str(there)), strict_load=True) == ([], [])
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    wanted = source(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(target(ms.Tensor(x)).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    assert regraft.diff(tmp_path / "a.pth", there, tmp_path / "map.json").equal
    regraft.convert_checkpoint(there, back, tmp_path / "map.json")
    for name, value in torch.load(back).items():
        assert torch.equal(value, source.state_dict()[name]), name


def test_where_no_layout_holds_that_is_said_and_no_join_is_written(file, tmp_path):
    report = regraft.verify(
        f"{file}:Shuffled", f"{file}:ApartInTorch", ["2x5x8"], write_map=tmp_path / "map.json"
    )
    assert not report.passed
    assert "`qkv` may hold `wq`, `wk`, `wv`: with none of 24 layouts are the outputs equal" in notes(report)
    assert report.nets.only_source == ["qkv.weight", "qkv.bias"]
    assert len(report.nets.only_target) == 6
    assert "joins" not in json.loads((tmp_path / "map.json").read_text())


def test_a_mistake_elsewhere_is_seen_by_the_nearest_layout_which_is_not_written(file, tmp_path):
    nets = [f"{file}:Biased", f"{file}:ApartInTorch"]
    report = regraft.verify(*nets, ["2x5x8"], copy=True, write_map=tmp_path / "map.json")
    assert not report.passed
    assert max(row.max_abs for row in report.outputs) < 2e-4
    assert "compared as rows alternating by 4 heads, which is clearly the nearest" in notes(report)
    assert "joins" not in json.loads((tmp_path / "map.json").read_text())


def test_inputs_that_do_not_tell_prove_nothing(file, tmp_path):
    """Attention over one position is its value: queries and keys may stand anywhere."""
    report = regraft.verify(
        f"{file}:Stacked", f"{file}:ApartInTorch", ["2x1x8"], write_map=tmp_path / "map.json"
    )
    assert "the outputs are equal, so these inputs do not tell" in notes(report)
    assert "joins" not in json.loads((tmp_path / "map.json").read_text())


def test_nets_that_keep_their_weights_are_told_by_values(file, tmp_path):
    torch.manual_seed(0)
    classes = runpy.run_path(str(file))
    source, target = classes["ByHead"](), classes["ApartInTorch"]()
    for role in ("weight", "bias"):
        rows = getattr(source.qkv, role).detach().unflatten(0, (4, 3, 2))
        for at, layer in enumerate((target.wq, target.wk, target.wv)):
            getattr(layer, role).data = rows[:, at].flatten(0, 1).clone()
        for mine, theirs in ((source.stem, target.first), (source.proj, target.last)):
            getattr(theirs, role).data = getattr(mine, role).detach().clone()
    x = np.random.default_rng(0).random((2, 5, 8), np.float32)
    report = regraft.verify(source, target, [x])
    assert report.passed
    assert "rows alternating by 4 heads: their values are equal so" in notes(report)
    target.wq.weight.data *= 2
    report = regraft.verify(source, target, [x])
    assert not report.passed
    assert "of 24 layouts this one gives equal outputs" in notes(report)
    assert report.nets.differing == ["qkv.weight"]


@pytest.mark.parametrize("turned", [False, True], ids=["whole-first", "parts-first"])
def test_a_training_step_compares_gradients_of_the_whole_with_those_of_its_parts(file, turned):
    nets = [load_tree(f"{file}:{name}").origin.model for name in ("ByHead", "ApartInTorch")][
        :: -1 if turned else 1
    ]
    x = np.random.default_rng(0).random((2, 5, 8), np.float32)
    report = regraft.verify(*nets, [x], train=True, copy=True)
    assert report.passed
    rows = {row.parameter: row for row in report.training}
    assert (rows["wk.weight"].target if turned else rows["qkv.weight"].target) == (
        "wk.weight in qkv.weight" if turned else "wq.weight + wk.weight + wv.weight"
    )
    held = next(net for net in nets if hasattr(net, "wk"))
    held.wk.weight.requires_grad_(False)
    report = regraft.verify(*nets, [x], train=True, copy=True)
    failed = [row.parameter for row in report.training if not row.passed]
    assert failed == ["wk.weight" if turned else "qkv.weight"]


@pytest.mark.parametrize("turned", [False, True], ids=["whole-first", "parts-first"])
def test_a_map_states_the_layout_and_a_wrong_one_is_a_difference(file, tmp_path, turned):
    said, written = tmp_path / "said.json", tmp_path / "written.json"
    nets = [f"{file}:ByHead", f"{file}:ApartInTorch"][:: -1 if turned else 1]
    said.write_text(json.dumps({"qkv": {"parts": ["wq", "wk", "wv"], "heads": 4}}))
    report = regraft.verify(*nets, ["2x5x8"], copy=True, map=said, write_map=written)
    assert report.passed
    assert notes(report).endswith("rows alternating by 4 heads: as the map says")
    assert len(json.loads(written.read_text())["joins"]) == 2
    said.write_text(json.dumps({"qkv": ["wq", "wk", "wv"]}))
    assert not regraft.verify(*nets, ["2x5x8"], copy=True, map=said).passed


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"qkv": ["wq", "wk", "wx"]}, "expected a layer `qkv` in one net and `wq`, `wk`, `wx` in the other"),
        ({"qkv": ["wq", "wk"]}, r"`qkv` \[24, 8\] is not 2 parts of 1 pieces each"),
        ({"qkv": {"parts": ["wq", "wk", "wv"], "heads": 3}}, "is not 3 parts of 3 pieces each"),
        ({"qkv": ["wq", "wk", "wv"], "stem": ["wq", "wk"]}, "each in one record"),
    ],
)
def test_a_map_that_states_what_is_not_there_is_refused(file, tmp_path, said, words):
    (tmp_path / "map.json").write_text(json.dumps(said))
    with pytest.raises(ModelError, match=words):
        regraft.verify(f"{file}:ByHead", f"{file}:ApartInTorch", ["2x5x8"], map=tmp_path / "map.json")


def test_a_layer_apart_on_both_sides_is_a_pair_of_its_own(file):
    report = regraft.verify(f"{file}:ApartInTorch", f"{file}:ApartInTorch", ["2x5x8"])
    assert report.passed
    assert notes(report) == ""


def test_a_layout_reads_as_rows_stand():
    assert str(Layout(1, (0, 1))) == "rows one after another"
    assert str(Layout(4, (0, 1, 2))) == "rows alternating by 4 heads"
