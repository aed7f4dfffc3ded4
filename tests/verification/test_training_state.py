"""What holds gradients back in the source does so in emitted source, and what does not is named."""

import importlib.util
import shutil
import sys

import mindspore
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.ir import ModelError, UnsupportedError
from regraft.verification import verify

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mindspore_training_state")]


class Padded(nn.Module):
    """One row is padding; another table is tied to the output."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, padding_idx=2)
        self.places = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.words(ids) + self.places(ids % 5)))


class Held(nn.Module):
    """One branch detached, one computed without gradients."""

    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        with torch.no_grad():
            scale = torch.sigmoid(self.right(x))
        return self.left(x).detach() * x * scale + x.detach()


class Straight(torch.autograd.Function):
    """Rounds; its gradient is the identity's."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return Straight.apply(self.linear(x) * 4)


class Unlike(nn.Module):
    """One of several things that only training does, or does not."""

    def __init__(self, what):
        super().__init__()
        self.first, self.second, self.what = nn.Linear(4, 4), nn.Linear(4, 4), what

    def forward(self, x):
        y = self.first(x)
        if self.what == "switch" and self.training:
            return self.second(y) + y
        if self.what == "depth":
            return self.second(x + depth(y, self.training))
        if self.what == "inactive":
            y = F.dropout(y, 0.3, training=False)
        if self.what == "guarded" and self.training:
            y = F.dropout(y, 0.3)
        if self.what == "detached" and self.training:
            y = y.detach()
        if self.what == "dropped":
            y = F.dropout(y, 0.3, training=self.training)
        return self.second(y)


def depth(x, training):
    return x * torch.bernoulli(torch.full((len(x), 1), 0.5)) if training else x


class Channels(nn.Module):
    """Whole channels dropped, by a layer and by a function."""

    def __init__(self, rank, ratio=0.3):
        super().__init__()
        self.conv = [nn.Conv1d, nn.Conv2d, nn.Conv3d][rank - 1](3, 16, 1)
        self.drop = [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d][rank - 1](ratio)
        self.function = [F.dropout1d, F.dropout2d, F.dropout3d][rank - 1]

    def forward(self, x):
        return self.function(self.drop(self.conv(x)), 0.4, self.training)


def emitted(net, array, folder):
    torch.manual_seed(0)
    graph = regraft.load(net, (array,))
    regraft.save(regraft.rewrite(graph).graph, folder / "out", to="mindspore")
    return graph, folder / "out"


def emitted_net(folder):
    name = f"training_state_{folder.parent.name}_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.build()


def edited(folder, old, new):
    broken = folder.with_name("broken")
    shutil.rmtree(broken, ignore_errors=True)
    shutil.copytree(folder, broken)
    text = (broken / "model.py").read_text()
    assert old in text, text
    (broken / "model.py").write_text(text.replace(old, new))
    return broken


def failed(graph, folder):
    report = verify(graph, folder, train=True, modules=False)
    return {row.parameter for row in report.training if not row.passed}


def test_the_row_of_padding_is_not_trained(tmp_path):
    ids = np.array([[0, 2, 2, 6], [2, 1, 3, 2]])
    graph, folder = emitted(Padded(), ids, tmp_path)
    assert failed(graph, folder) == set()
    broken = edited(folder, "ops.stop_gradient(rows)", "rows")
    assert {name.partition(" ")[0] for name in failed(graph, broken)} == {"words.weight"}


def test_detached_branches_are_not_trained(tmp_path):
    graph, folder = emitted(
        Held(), np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32), tmp_path
    )
    text = (folder / "model.py").read_text()
    assert text.count("ops.stop_gradient(") == 3
    assert failed(graph, folder) == set()
    broken = edited(folder, "ops.stop_gradient(", "(")
    assert {"left.weight", "right.weight"} <= failed(graph, broken)


def test_onnx_has_no_operator_for_a_held_gradient(tmp_path):
    graph = regraft.load(Held(), (np.zeros((3, 4), np.float32),))
    path = regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")[0]
    assert regraft.verify(graph, path).passed
    import onnx

    assert not [n for n in onnx.load(path).graph.node if n.op_type == "Identity"]


def test_nothing_is_held_where_nothing_is_trained():
    class Frozen(Held):
        def __init__(self):
            super().__init__()
            self.requires_grad_(False)

    graph = regraft.load(Frozen(), (np.zeros((3, 4), np.float32),))
    assert "StopGradient" not in str(graph)


def test_a_gradient_of_the_models_own_is_said_and_fails(tmp_path):
    apply = vars(torch.autograd.Function)["apply"]
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(Rounded(), x, tmp_path)
    assert any("`Straight`" in note for note in regraft.check(Rounded(), (x,)).notes)
    assert any("`Straight`" in note for note in graph.origin.notes)
    assert "`Straight`" in (folder / "model.py").read_text()
    assert verify(graph, folder).passed
    assert failed(graph, folder) == {"linear.weight", "linear.bias"}
    assert vars(torch.autograd.Function)["apply"] is apply


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dropout_of_channels_is_carried_over(rank, tmp_path):
    x = np.random.default_rng(0).standard_normal((4, 3, *[5, 2, 2][:rank])).astype(np.float32)
    graph, folder = emitted(Channels(rank), x, tmp_path)
    text = (folder / "model.py").read_text()
    assert f"nn.Dropout{rank}d(p=0.3)" in text
    assert f"ops.dropout{rank}d(" in text
    assert "p=0.4, training=self.training" in text
    report = verify(graph, folder, train=True, modules=False)
    assert report.passed
    assert any("ratios were 0" in note for note in report.notes)
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    net = emitted_net(folder).set_train()
    dropped = (net(mindspore.Tensor(x)).asnumpy() == 0).reshape(4, 16, -1)
    assert (dropped == dropped[..., :1]).all()
    assert 0.25 < dropped.mean() < 0.9  # 0.58, of 64
    again = regraft.load(net, (x,))
    assert [o.float("ratio") for o in again.operators() if o.op_type == "FeatureDropout"] == pytest.approx(
        [0.3, 0.4]
    )


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_what_is_dropped_otherwise_is_refused(layer, tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(nn.Sequential(nn.Linear(4, 4), layer(0.3)), x, tmp_path)
    assert verify(graph, folder).passed
    with pytest.raises(ModelError, match="random numbers"):
        verify(graph, folder, train=True)
    graph, folder = emitted(nn.Sequential(nn.Linear(4, 4), layer(0.0)), x, tmp_path / "none")
    assert failed(graph, folder) == set()


def test_a_dropout_of_everything_gives_zeros_in_training(tmp_path):
    """MindSpore's own Dropout refuses p=1."""
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0)), x, tmp_path)
    assert verify(graph, folder).passed
    with pytest.raises(ModelError, match="differ: zeros, mul - at 1"):
        verify(graph, folder, train=True)
    net = emitted_net(folder)
    assert net(mindspore.Tensor(x)).asnumpy().any()
    assert not net.set_train()(mindspore.Tensor(x)).asnumpy().any()


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("switch", "add"),
        ("depth", "bernoulli, mul"),
        ("inactive", ""),
        ("guarded", "dropout(0.3)"),
        ("detached", "detach"),
        ("dropped", ""),
    ],
)
def test_what_only_training_does_is_said_and_never_passes(what, named, tmp_path):
    net = Unlike(what).train()
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    random = torch.get_rng_state()
    graph = regraft.load(net, (x,))
    assert torch.equal(torch.get_rng_state(), random)
    assert all(m.training for m in net.modules())
    notes = [n for n in graph.origin.notes if "in training than" in n]
    assert bool(notes) == bool(named)
    assert all(named in note for note in notes)
    assert regraft.check(net, (x,)).notes == graph.origin.notes
    graph, folder = emitted(net, x, tmp_path)
    assert ("Dropout" in {o.op_type for o in graph.operators()}) == (what == "dropped")
    if what in ("detached", "dropped", "inactive"):
        assert failed(graph, folder) == ({"first.weight", "first.bias"} if named else set())
    else:
        with pytest.raises(ModelError, match="expected"):
            verify(graph, folder, train=True)


def test_a_look_at_training_moves_no_statistics():
    class Switched(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(x) * (2 if self.training else 1)

    net = Switched()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    graph = regraft.load(net, (np.ones((3, 4), np.float32),))
    assert any("the root module computes something else" in note for note in graph.origin.notes)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d(4, momentum=None), nn.InstanceNorm2d(4, track_running_stats=True, affine=True)],
    ids=["average", "instance"],
)
def test_statistics_that_no_layer_keeps_are_said_and_fail(layer, tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 4)).astype(np.float32)
    graph, folder = emitted(nn.Sequential(nn.Conv2d(2, 4, 1), layer, nn.ReLU()), x, tmp_path)
    assert any(f"`1` ({type(layer).__name__}" in note for note in graph.origin.notes)
    assert verify(graph, folder).passed
    assert failed(graph, folder)


def test_a_dropout_of_evaluation_too_is_refused():
    class Always(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.3)

    with pytest.raises(UnsupportedError, match="active in evaluation"):
        regraft.load(Always(), (np.ones((3, 4), np.float32),))


CELLS = """
from mindspore import nn, ops


class Straight(nn.Cell):
    def construct(self, x):
        return ops.round(x)

    def bprop(self, x, out, dout):
        return (dout,)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.straight = Straight()

    def construct(self, x):
        y = self.dense(x) * 4
        return self.straight(y * 2 if self.training else y)


def build():
    return Net()
"""


def test_what_cells_do_in_training_only_is_said(tmp_path):
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.py").write_text(CELLS)
    net = emitted_net(source)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(net, x, tmp_path)
    notes = regraft.check(net, (x,)).notes
    assert any("`straight` (`Straight.bprop`)" in note for note in notes)
    assert any("root Cell (`Net`) reads `training`" in note for note in notes)
    assert "Straight.bprop" in (folder / "model.py").read_text()
    assert verify(graph, folder).passed
    assert failed(graph, folder) == {"dense.weight", "dense.bias"}
    assert regraft.check(nn.Sequential(nn.Dropout(0.1)), (x,)).notes == ["captured in evaluation mode"]


DROPPING = """
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)

    def construct(self, x):
        y = self.dense(x)
        WHAT
        return y * 2


def build():
    return Net()
"""


@pytest.mark.parametrize(
    ("what", "kept", "refused"),
    [
        ("y = ops.dropout(y, 0.3, self.training)", True, ""),
        ("y = ops.dropout(y, p=0.3, training=self.training)", True, ""),
        ("y = ops.dropout(y, 0.3, False)", False, ""),
        ("y = ops.dropout(y, 0.3) if self.training else y", False, "expected 1 calls of dropout functions"),
    ],
)
def test_dropouts_that_cells_call_are_kept_or_refused(what, kept, refused, tmp_path):
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.py").write_text(DROPPING.replace("WHAT", what))
    net = emitted_net(source)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(net, x, tmp_path)
    assert not net.training
    found = [graph.operands(n.key)[1] for n in graph.operators() if n.op_type == "Dropout"]
    assert [float(graph.constant_value(v)) for v in found] == ([pytest.approx(0.3)] if kept else [])
    assert any("reads `training`" in note for note in graph.origin.notes) == bool(refused)
    assert verify(graph, folder).passed
    if refused:
        with pytest.raises(ModelError, match=refused):
            verify(graph, folder, train=True)
        return
    assert failed(graph, folder) == set()
    trained = emitted_net(folder).set_train(True)(mindspore.Tensor(np.repeat(x, 50, 0))).asnumpy()
    assert ((trained == 0).mean() > 0.1) == kept


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["half", "bfloat16"])
def test_halves_stay_halves(dtype, tmp_path):
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
    graph, folder = emitted(net, torch.randn(3, 4).to(dtype), tmp_path)
    name = str(dtype).removeprefix("torch.")
    text = (folder / "model.py").read_text()
    assert text.count(f"dtype=ms.{name}") == 3
    loaded = mindspore.load_checkpoint(str(folder / "model.ckpt"))
    assert {str(p.dtype).lower() for p in loaded.values()} == {name}
    if dtype == torch.float16:
        assert failed(graph, folder) == set()
    else:
        assert "CPU backend has no kernels" in " ".join(text.split())
        assert verify(graph, folder).summary().startswith("equal in float32: ")


def test_statistics_in_half_do_not_move_on_a_cpu(tmp_path):
    x = (np.random.default_rng(0).standard_normal((4, 2, 3, 3)) + 1).astype(np.float16)
    graph, folder = emitted(nn.Sequential(nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4)).half(), x, tmp_path)
    assert "does not update the float16 statistics" in " ".join((folder / "model.py").read_text().split())
    assert {name.rpartition(".")[2] for name in failed(graph, folder)} == {"running_mean", "running_var"}


class Frozen(nn.Module):
    """Batch statistics that never move, as detectors keep those of their backbone."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.bn(self.conv(x))

    def train(self, mode=True):
        super().train(mode)
        self.bn.eval()
        self.bn.weight.requires_grad_(False)
        return self


def test_a_module_that_stays_in_evaluation_is_refused_and_left_as_it_was(tmp_path):
    net = Frozen().eval()
    net.bn.weight.requires_grad_(True)
    graph = regraft.load(net, (torch.randn(2, 3, 6, 6),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path, to="mindspore")
    assert verify(graph, tmp_path).passed
    with pytest.raises(ModelError, match=r"keeps 1 in evaluation, the first `BatchNorm2d` - at bn"):
        verify(graph, tmp_path, train=True)
    assert net.bn.weight.requires_grad
    assert not net.conv.training
