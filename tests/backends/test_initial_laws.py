"""`build(checkpoint=None)` draws what the source drew: every torch.nn.init function and MXNet initializer."""

import importlib.util
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

import regraft
from regraft.formats.params_file import write_params
from regraft.ir import TensorData

NET = """
import torch
from torch import nn
from torch.nn.init import trunc_normal_, xavier_normal_

LAWS = {
    "uniform": lambda w: nn.init.uniform_(w),
    "uniform_of_bounds": lambda w: nn.init.uniform_(w, -0.3, 0.1),
    "normal": lambda w: nn.init.normal_(w, 0.1, 0.3),
    "in_place": lambda w: w.data.normal_(0, 0.02),
    "constant": lambda w: nn.init.constant_(w, 0.3),
    "ones": lambda w: nn.init.ones_(w),
    "zeros": lambda w: nn.init.zeros_(w),
    "eye": lambda w: nn.init.eye_(w),
    "xavier_uniform": lambda w: nn.init.xavier_uniform_(w, gain=1.5),
    "xavier_normal": lambda w: xavier_normal_(w),
    "kaiming_uniform": lambda w: nn.init.kaiming_uniform_(w, a=0.3, mode="fan_out"),
    "kaiming_normal": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "kaiming_linear": lambda w: nn.init.kaiming_uniform_(w, nonlinearity="linear"),
    "kaiming_tanh": lambda w: nn.init.kaiming_normal_(w, nonlinearity="tanh"),
    "trunc_normal": lambda w: nn.init.trunc_normal_(w, std=0.02),
    "trunc_normal_near": lambda w: trunc_normal_(w, mean=0.01, std=0.5, a=-0.2, b=0.7),
    "orthogonal": lambda w: nn.init.orthogonal_(w, gain=0.5),
    "sparse": lambda w: nn.init.sparse_(w, 0.25, std=0.1),
    "scaled": lambda w: w.data.uniform_(-1, 1).mul_(0.5),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(96, 64) for name in LAWS})
        for name, draw in LAWS.items():
            draw(self.layers[name].weight)
        self.conv = nn.Conv2d(64, 32, 3)
        nn.init.dirac_(self.conv.weight, groups=2)
        self.position = nn.Parameter(torch.randn(30, 64) * 0.02)

    def forward(self, x):
        y = sum(layer(x) for layer in self.layers.values())
        return self.conv(y[:, :, None, None] + self.position.mean(0)[:, None, None].expand(64, 3, 3))


class Mended(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 30)
        with torch.no_grad():
            self.embedding.weight[0].fill_(0)
        self.norm = nn.LayerNorm(30)
        self.slope = nn.PReLU()

    def forward(self, x):
        return self.slope(self.norm(self.embedding(x)))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 64, padding_idx=3)
        self.fc = nn.Linear(64, 4)

    def forward(self, x):
        return self.fc(self.embedding(x))


class Loaded(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.load_state_dict({"fc.weight": torch.eye(8) * 7, "fc.bias": torch.full((8,), 7.0)})

    def forward(self, x):
        return self.fc(x)
"""
FIXED = {"constant", "ones", "zeros", "eye"}
"""Laws that draw no numbers."""


def built(folder: Path):
    """A net with fresh parameters, as an array each."""
    name = f"emitted_{abs(hash(folder))}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    np.random.seed(1)
    return {p.name: p.asnumpy() for p in module.build(checkpoint=None).get_parameters()}


def emitted(reference: str, inputs: str, folder: Path, **options: object) -> str:
    graph = regraft.rewrite(regraft.load(reference, [inputs])).graph
    regraft.save(graph, folder, "mindspore", **options)
    return (folder / "model.py").read_text(encoding="utf-8")


def assert_same_law(found: np.ndarray, wanted: np.ndarray, name: str) -> None:
    """Two samples of one law: their bounds and their distribution."""
    assert ks_2samp(found.ravel(), wanted.ravel()).pvalue > 1e-4, name
    spread = wanted.max() - wanted.min()
    for end in (np.min, np.max):
        assert abs(end(found) - end(wanted)) < 0.25 * spread, name


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("laws") / "net.py"
    path.write_text(NET)
    return path


def test_every_function_of_torch_nn_init(file: Path, tmp_path: Path) -> None:
    before = dict(vars(torch.nn.init))
    graph = regraft.load(f"{file}:Net", ["2x96"])
    assert dict(vars(torch.nn.init)) == before
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", "mindspore")
    found = built(tmp_path / "out")
    source = {
        graph.parameter_paths()[p.key][0]: p.data.numpy() for p in graph.parameters() if not p.is_buffer
    }
    assert all(p.initializer is not None for p in graph.parameters())
    for path, wanted in source.items():
        law = path.split(".")[-2:][0]
        if (law in FIXED and path.endswith("weight")) or path == "conv.weight":
            np.testing.assert_array_equal(found[path], wanted)
        elif not path.endswith("bias"):
            assert_same_law(found[path], wanted, path)
    gram = found["layers.orthogonal.weight"] @ found["layers.orthogonal.weight"].T
    np.testing.assert_allclose(gram, 0.25 * np.eye(64), atol=1e-6)
    assert ((found["layers.sparse.weight"] == 0).sum(0) == 16).all()
    near = found["layers.trunc_normal_near.weight"]
    assert near.min() >= -0.2
    assert near.max() <= 0.7


def test_a_tensor_that_is_written_to_in_part_has_no_law(file: Path, tmp_path: Path) -> None:
    graph = regraft.load(f"{file}:Mended", ["2x5:int64"])
    laws = {p.name: p.initializer for p in graph.parameters()}
    assert str(laws["embedding.weight"]) == "unknown()"
    text = emitted(f"{file}:Mended", "2x5:int64", tmp_path / "out")
    assert "does not state the initial distribution of `embedding.weight`" in " ".join(text.split())
    assert 'UNDRAWN = ["embedding.embedding_table"]' in text
    values = next(p.data.numpy() for p in graph.parameters() if p.name == "embedding.weight")
    np.testing.assert_array_equal(built(tmp_path / "out")["embedding.embedding_table"], values)


@pytest.mark.parametrize("law", ["Normal(1.0)", '"zeros"', "Normal(0.5)"])
def test_a_table_with_padding_has_the_law_of_its_other_rows(file: Path, tmp_path: Path, law: str) -> None:
    """And another law in its place is told."""
    folder = tmp_path / "out"
    text = emitted(f"{file}:Rows", "2x5:int64", folder)
    assert text.count("Normal(1.0)") == 1
    (folder / "model.py").write_text(text.replace("Normal(1.0)", law))
    report = regraft.verify(f"{file}:Rows", folder, ["2x5:int64"])
    row = next(row for row in report.laws.rows if row.parameter == "embedding.weight")
    assert row.passed is (law == "Normal(1.0)")


def test_trained_values_change_no_law(file: Path) -> None:
    (weight, bias) = (p.initializer for p in regraft.load(f"{file}:Loaded", ["2x8"]).parameters())
    assert str(weight).startswith("he_uniform(a=2.236")
    assert str(bias).startswith("uniform(low=-0.353")


def test_explicit_initializers(file: Path, tmp_path: Path) -> None:
    usual = emitted(f"{file}:Mended", "2x5:int64", tmp_path / "usual")
    stated = emitted(f"{file}:Mended", "2x5:int64", tmp_path / "stated", explicit_initializers=True)
    for argument in ('gamma_init="ones"', 'beta_init="zeros"', "w=0.25"):
        assert argument not in usual
        assert argument in stated


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    area = math.prod(shape[2:])
    return shape[1] * area, shape[0] * area


def xavier(kind: str, factor: str, magnitude: float) -> Callable[[tuple[int, ...]], np.ndarray]:
    """MXNet's `Xavier._init_weight`, as its documentation defines it."""

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        fan_in, fan_out = fans(shape)
        scale = math.sqrt(magnitude / {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[factor])
        random = np.random.default_rng(3)
        return random.uniform(-scale, scale, shape) if kind == "uniform" else random.normal(0, scale, shape)

    return draw


XAVIER = {
    json.dumps(["xavier", {"rnd_type": kind, "factor_type": factor, "magnitude": m}]): xavier(kind, factor, m)
    for kind in ("uniform", "gaussian")
    for factor in ("avg", "in", "out")
    for m in (2.0, 24.0)
}
MXNET = {
    **XAVIER,
    '["msraprelu", {"factor_type": "in", "slope": 0.25}]': xavier("gaussian", "in", 2 / (1 + 0.25**2)),
    '["uniform", {"scale": 0.2}]': lambda shape: np.random.default_rng(3).uniform(-0.2, 0.2, shape),
    '["normal", {"sigma": 0.2}]': lambda shape: np.random.default_rng(3).normal(0, 0.2, shape),
    '["zero", {}]': np.zeros,
    '["one", {}]': np.ones,
    '["constant", {"value": 0.4}]': lambda shape: np.full(shape, 0.4),
}


def test_every_initializer_of_mxnet(tmp_path: Path) -> None:
    nodes: list[dict] = [{"op": "null", "name": "data", "inputs": []}]
    last = 0
    for at, text in enumerate(MXNET):
        nodes.append({"op": "null", "name": f"fc{at}_weight", "inputs": [], "attrs": {"__init__": text}})
        bias = {"__init__": '["lstmbias", {"forget_bias": 2.0}]'} if at == 0 else {}
        nodes.append({"op": "null", "name": f"fc{at}_bias", "inputs": [], "attrs": bias})
        attributes = {"num_hidden": "64" if at % 2 == 0 else "40"}
        inputs = [[last, 0, 0], [len(nodes) - 2, 0, 0], [len(nodes) - 1, 0, 0]]
        nodes.append({"op": "FullyConnected", "name": f"fc{at}", "inputs": inputs, "attrs": attributes})
        last = len(nodes) - 1
    symbol = {"nodes": nodes, "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"]}
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps({**symbol, "heads": [[last, 0, 0]]}))
    widths = [40, *(40 if at % 2 else 64 for at in range(len(MXNET)))]
    arrays = {}
    for at in range(len(MXNET)):
        arrays[f"arg:fc{at}_weight"] = TensorData.of(np.zeros((widths[at + 1], widths[at]), np.float32))
        arrays[f"arg:fc{at}_bias"] = TensorData.of(np.zeros(widths[at + 1], np.float32))
    write_params(tmp_path / "x-0000.params", arrays.items())
    emitted(str(path), "data=2x40", tmp_path / "out")
    found = built(tmp_path / "out")
    for at, (text, draw) in enumerate(MXNET.items()):
        weight = found[f"fc{at}.weight"]
        wanted = draw(weight.shape)
        if np.ptp(wanted):
            assert_same_law(weight, wanted, text)
        else:
            np.testing.assert_allclose(weight, wanted, rtol=1e-6)
    np.testing.assert_array_equal(found["fc0.bias"].reshape(4, 16), np.repeat([[0], [2], [0], [0]], 16, 1))


def test_bilinear_upsampling_of_mxnet(tmp_path: Path) -> None:
    attributes = {
        "kernel": "(4, 4)",
        "stride": "(2, 2)",
        "pad": "(1, 1)",
        "num_filter": "3",
        "num_group": "3",
    }
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "up_weight", "inputs": [], "attrs": {"__init__": '["bilinear", {}]'}},
        {
            "op": "Deconvolution",
            "name": "up",
            "inputs": [[0, 0, 0], [1, 0, 0]],
            "attrs": {**attributes, "no_bias": "True"},
        },
    ]
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0, 1], "heads": [[2, 0, 0]]}))
    array = TensorData.of(np.zeros((3, 1, 4, 4), np.float32))
    write_params(tmp_path / "x-0000.params", [("arg:up_weight", array)])
    emitted(str(path), "data=2x3x5x5", tmp_path / "out")
    (weight,) = built(tmp_path / "out").values()
    row = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(weight, np.broadcast_to(np.outer(row, row), (3, 1, 4, 4)), rtol=1e-6)


class Inner(torch.nn.Module):
    """Its weight is drawn in a way that no law says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = torch.nn.Linear(4, width)
        self.out.weight.data = torch.randn(width, 4).tanh() ** 3

    def forward(self, x):
        return self.out(x)


class Outer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.block, self.out = Inner(width), torch.nn.Linear(width, 4)

    def forward(self, x):
        return self.out(self.block(x).relu())


@pytest.mark.parametrize(("width", "shard"), [(4, None), (6, None), (4, 100)])
def test_what_is_not_drawn_is_loaded_by_its_whole_name(width: int, shard: int | None, tmp_path: Path) -> None:
    """MindSpore's own loading takes `block.out.weight` for a missing `out.weight`, whatever its shape."""
    torch.manual_seed(0)
    net = Outer(width).eval()
    graph = regraft.rewrite(regraft.load(net, (torch.randn(2, 4),))).graph
    regraft.save(graph, tmp_path, to="mindspore", max_shard_size=shard)
    assert 'UNDRAWN = ["block.out.weight"]' in (tmp_path / "model.py").read_text()
    found = built(tmp_path)
    held = {name: p.detach().numpy() for name, p in net.named_parameters()}
    np.testing.assert_array_equal(found["block.out.weight"], held["block.out.weight"])
    assert not np.isin(found["out.weight"], [*held["out.weight"].flat, *held["block.out.weight"].flat]).any()


def test_a_checkpoint_of_other_shapes_is_one_error_where_a_part_is_loaded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for width, folder in ((4, "net"), (6, "other")):
        graph = regraft.rewrite(regraft.load(Outer(width).eval(), (torch.randn(2, 4),))).graph
        regraft.save(graph, tmp_path / folder, to="mindspore")
    (tmp_path / "other" / "model.ckpt").replace(tmp_path / "net" / "model.ckpt")
    with pytest.raises(ValueError, match=r"does not fit the net:(?s:.*)block\.out\.weight Float32\(4, 4\)"):
        built(tmp_path / "net")
