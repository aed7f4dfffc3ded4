"""Names of which one side has more parts than the other are paired by name; by order where asked."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regraft import convert_checkpoint, diff, load, load_tree, verify
from regraft.api.weights import fit
from regraft.checkpoints import write_checkpoint
from regraft.checkpoints.prefixes import align
from regraft.ir import ModelError, TensorData, UsageError

NETS = '''
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.attn = nn.ModuleDict({n: nn.Linear(6, 6) for n in names})
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 6)

class Net(nn.Module):
    def __init__(self, names=("q", "k", "v", "out"), blocks="blocks"):
        super().__init__()
        setattr(self, blocks, nn.ModuleList(Block(names) for _ in range(2)))
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 6)

def other():
    return Net(("query", "key", "value", "proj"), "layers")

class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Net()

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(6, 6) for _ in range(4))

    def forward(self, x):
        return self.out(torch.softmax(self.q(x) @ self.k(x).mT, -1) @ self.v(x))

class Wrapped(nn.Module):
    """The same layers, constructed in another order."""
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleDict({n: nn.Linear(6, 6) for n in ("out", "v", "k", "q")})

    def forward(self, x):
        m = self.inner
        return m["out"](torch.softmax(m["q"](x) @ m["k"](x).mT, -1) @ m["v"](x))
'''


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prefixes") / "nets.py"
    file.write_text(NETS)
    return file


@pytest.fixture(scope="module")
def state(nets: Path) -> dict[str, torch.Tensor]:
    """Values of which no two are equal: the layers are alike in shape."""
    generator = torch.Generator().manual_seed(1)
    names = load_tree(f"{nets}:Net").origin.model.state_dict()
    return {name: torch.rand(value.shape, generator=generator) for name, value in names.items()}


def alternating(name: str) -> str:
    return f"ema.{name}" if "attn" in name else name


SPELLINGS: dict[str, tuple[Callable[[str], str], str]] = {
    "as it is": (lambda n: n, ""),
    "all": (lambda n: f"ema.{n}", "`ema.` before the names of 28 tensors was left out"),
    "two deep": (lambda n: f"student.backbone.{n}", "`student.backbone.` before"),
    "some": (alternating, "`ema.` before the names of 16 tensors was left out"),
    "beside": (lambda n: n if n.startswith("head") else f"encoder.{n}", "`encoder.` before"),
    "inside": (lambda n: n.replace("attn.", "inner.attn."), "`inner.` inside the names of 16 tensors"),
    "wrappers": (
        lambda n: "module." + n.replace("attn.", "attn._checkpoint_wrapped_module."),
        "`module._checkpoint_wrapped_module.` inside",
    ),
    "of each": (
        lambda n: n.replace("head.", "head.cls.") if n.startswith("head") else f"backbone.{n}",
        "`cls.` inside the names of 2 tensors",
    ),
}


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_part_that_only_the_file_has_is_left_out(nets, state, tmp_path, suffix):
    """In any order of the file: a .safetensors file sorts its names."""
    for rename, note in SPELLINGS.values():
        source, target = tmp_path / f"a{suffix}", tmp_path / "b.pth"
        given = {rename(name): value for name, value in sorted(state.items(), reverse=True)}
        if suffix == ".pth":
            torch.save(given, source)
        else:
            import safetensors.torch

            safetensors.torch.save_file(given, source)
        done = convert_checkpoint(source, target, like=f"{nets}:Net", force=True)
        made = torch.load(target)
        assert made.keys() == state.keys()
        assert all(torch.equal(made[name], value) for name, value in state.items()), rename("blocks.0.attn.q")
        assert note in "\n".join(done.notes)
        assert any(n.startswith("paired: 28 by name") for n in done.notes)
        assert fit(f"{nets}:Net", source).placement.whole
        assert diff(source, target).equal


def test_a_part_that_only_the_net_has_is_put_in(nets, state, tmp_path):
    torch.save(dict(reversed(state.items())), tmp_path / "a.pth")
    done = convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", like=f"{nets}:Around")
    made = torch.load(tmp_path / "b.pth")
    assert all(torch.equal(made[f"encoder.{name}"], value) for name, value in state.items())
    assert "`encoder.` was put before the names of 28 tensors" in done.notes


def test_of_several_sets_one_has_to_be_named(nets, state, tmp_path):
    twice = {f"student.{n}": v for n, v in state.items()} | {f"teacher.{n}": v + 1 for n, v in state.items()}
    source, target = tmp_path / "a.pth", tmp_path / "b.pth"
    torch.save({"state_dict": twice}, source)
    with pytest.raises(ModelError, match=r"E801 .*`student.` and `teacher.`") as error:
        convert_checkpoint(source, target, like=f"{nets}:Net")
    assert error.value.hint == "say which with --part, such as --part student"
    convert_checkpoint(source, target, like=f"{nets}:Net", part="teacher")
    assert torch.equal(torch.load(target)["head.bias"], state["head.bias"] + 1)
    with pytest.raises(ModelError, match="expected tensors under `nobody`, got none") as error:
        convert_checkpoint(source, target, like=f"{nets}:Net", part="nobody", force=True)
    assert error.value.hint == "names begin with `student`, `teacher`"
    # names that fit as they are come before all that fit without a part
    torch.save(state | {f"ema.{n}": v + 1 for n, v in state.items()}, source)
    convert_checkpoint(source, target, like=f"{nets}:Net", force=True)
    assert torch.equal(torch.load(target)["head.bias"], state["head.bias"])


def test_what_order_alone_would_pair_is_refused_with_a_map_to_edit(nets, state, tmp_path):
    source, target, pairs = tmp_path / "a.pth", tmp_path / "b.pth", tmp_path / "map.json"
    torch.save(state, source)
    with pytest.raises(ModelError, match=r"E703 .*several of these have one shape") as error:
        convert_checkpoint(source, target, like=f"{nets}:other")
    text = str(error.value)
    assert "only in the checkpoint: `blocks.0.attn.q` [6, 6] (near `layers.0.attn.query`)" in text
    assert "only in the net: `layers.0.attn.query` [6, 6] (near `blocks.0.attn.q`)" in text
    assert not target.exists()
    mapped = error.value.hint.partition("--map FILE: ")[2]
    assert json.loads(mapped)["blocks.1.attn.v"] == "layers.1.attn.value"
    wanted = {"q": "query", "k": "key", "v": "value", "out": "proj"}
    pairs.write_text(mapped)
    for options in ({"map": pairs}, {"by_order": True}):
        done = convert_checkpoint(source, target, like=f"{nets}:other", force=True, **options)
        made = torch.load(target)
        for name, other in wanted.items():
            assert torch.equal(made[f"layers.1.attn.{other}.weight"], state[f"blocks.1.attn.{name}.weight"])
        assert any("paired by order alone" in note for note in done.notes) is ("by_order" in options)
    with pytest.raises(UsageError, match="--like with --by-order"):
        convert_checkpoint(source, target, by_order=True, force=True)


def test_what_order_alone_would_pair_is_refused_wherever_it_lies_in_the_file(nets, state, tmp_path):
    source, target = tmp_path / "a.pth", tmp_path / "b.pth"
    renamed = {"blocks.0.attn.q": "x", "blocks.1.attn.v": "y"}
    heads = {name: name.rpartition(".")[0] for name in state}
    moved = {n: v for n, v in state.items() if heads[n] in renamed}
    rest = {n: v for n, v in state.items() if n not in moved}
    torch.save({n.replace(heads[n], renamed[heads[n]]): v for n, v in moved.items()} | rest, source)
    with pytest.raises(ModelError, match=r"E703 .*several of these have one shape") as error:
        convert_checkpoint(source, target, like=f"{nets}:Net")
    assert error.value.hint.endswith('--map FILE: {"x": "blocks.0.attn.q", "y": "blocks.1.attn.v"}')
    convert_checkpoint(source, target, like=f"{nets}:Net", by_order=True)
    made = torch.load(target)
    assert all(torch.equal(made[name], value) for name, value in state.items())


def test_modules_of_other_names_become_one_pair_of_the_map(nets, state, tmp_path):
    torch.save({name.replace("blocks", "stages"): v for name, v in state.items()}, tmp_path / "a.pth")
    with pytest.raises(ModelError, match="E703") as error:
        convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", like=f"{nets}:Net")
    assert error.value.hint.endswith('--map FILE: {"stages": "blocks"}')


def test_nets_that_people_wrote_apart_are_paired_by_names_behind_a_part(nets, tmp_path):
    """In one order or another: nothing is scrambled, and so the map of the pairs is right."""
    pairs = tmp_path / "map.json"
    report = verify(f"{nets}:Attention", f"{nets}:Wrapped", ["2x3x6"], write_map=pairs)
    assert report.passed
    rows = json.loads(pairs.read_text())["parameters"]
    assert {(r["source"], r["target"]) for r in rows} == {
        (f"{n}.{k}", f"inner.{n}.{k}") for n in ("q", "k", "v", "out") for k in ("weight", "bias")
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "wanted"),
    [
        # the projector's layer is no layer of the net, whose own one is there
        ({"e.fc.w": (4,), "p.fc.w": (4,)}, {"fc.w": (4,), "x.w": (4,)}, None),
        ({"e.fc.w": (4,), "p.fc.w": (5,)}, {"fc.w": (4,)}, {"e.fc.w": "fc.w"}),
        ({"a.w": (4,), "b.w": (4,)}, {"w": (4,), "c.w": (4,)}, None),
        ({"blocks.0.norm.w": (4,), "blocks.0.q.w": (4,)}, {"norm.w": (4,), "blocks.0.q.w": (4,)}, {}),
        ({"bn_moving_var": (4,)}, {"bn.running_var": (4,)}, {}),
        ({"net0_bn_moving_var": (4,)}, {"bn.running_var": (4,)}, {"net0_bn_moving_var": "bn.running_var"}),
    ],
)
def test_a_part_has_to_explain_most_of_the_names_that_have_it(mine, theirs, wanted):
    found = align(mine, theirs)
    assert bool(found.rivals) is (wanted is None)
    moved = {name: new for name, new in found.names.items() if name != new}
    assert moved == (wanted or {})


def test_names_that_many_parts_could_be_left_out_of_are_aligned_at_once():
    many = {".".join([f"p{i}", *[f"x{i}"] * 3, "model", "layer", "weight"]): (8,) for i in range(5000)}
    deep = {".".join([*["a", "b"] * 7, str(i), "w"]): (8,) for i in range(5000)}
    for given in (many, deep):
        began = time.process_time()
        align(given, {"model.layer.weight": (8,), "model.layer.bias": (8,)}, insert=True)
        assert time.process_time() - began < 15  # 2 seconds alone; 80 where all rules are compared


WRAPPERS = """
import torch
from torch import nn

def parallel():
    return nn.DataParallel(net())

def compiled():
    return torch.compile(net())

def inner():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), torch.compile(nn.Linear(4, 3)))

def net():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
"""


@pytest.mark.parametrize("wrapped", ["parallel", "compiled", "inner"])
def test_weights_fit_a_net_that_is_still_in_wrappers(wrapped: str, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(WRAPPERS)
    state = {
        n: torch.rand(shape)
        for n, shape in {"0.weight": (4, 4), "0.bias": 4, "2.weight": (3, 4), "2.bias": 3}.items()
    }
    torch.save(state, tmp_path / "plain.pth")
    graph = load(f"{tmp_path / 'nets.py'}:{wrapped}", ["2x4"], params=tmp_path / "plain.pth")
    given = {
        p.declared.replace("_orig_mod.", "").removeprefix("module."): p.data.numpy()
        for p in graph.parameters()
    }
    assert given.keys() == state.keys()
    assert all(np.array_equal(given[name], state[name].numpy()) for name in state)


def test_an_average_beside_the_weights_and_numbers_of_training_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(WRAPPERS)
    shapes = {"0.weight": (4, 4), "0.bias": (4,), "2.weight": (3, 4), "2.bias": (3,)}
    own = {name: TensorData.of(np.random.rand(*shape).astype(np.float32)) for name, shape in shapes.items()}
    ema = {f"ema.{name}": TensorData.of(data.numpy() + 1) for name, data in own.items()}
    once = {name: TensorData.of(np.array(3.0, np.float32)) for name in ("epoch_num", "lr", "updates")}
    write_checkpoint(tmp_path / "a.ckpt", {**ema, **own, **once})
    net = f"{tmp_path / 'nets.py'}:net"
    for part, added in ((None, 0), ("ema", 1)):
        graph = load(net, ["2x4"], params=tmp_path / "a.ckpt", part=part)
        given = {p.declared: p.data.numpy() for p in graph.parameters()}
        assert all(np.array_equal(given[n], data.numpy() + np.float32(added)) for n, data in own.items())
    some = {name: data for name, data in ema.items() if name != "ema.2.bias"}
    write_checkpoint(
        tmp_path / "b.ckpt", {**own, **some}
    )  # not the weights again, so nothing tells what it is
    with pytest.raises(ModelError, match=r"`ema\.0\.weight` is not in the model"):
        load(net, ["2x4"], params=tmp_path / "b.ckpt")
    write_checkpoint(tmp_path / "c.ckpt", {**own, "scale": once["lr"]})
    with pytest.raises(ModelError, match="`scale` is not in the model"):
        load(net, ["2x4"], params=tmp_path / "c.ckpt")
