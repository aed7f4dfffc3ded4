"""Forms of operators as PyTorch source: what is written, and that it computes what the graph does."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from mindspore import nn
from torch.nn import functional as F

import regraft
from regraft.backends.torch_source import emit_source
from regraft.checkpoints import write_checkpoint
from regraft.ir import TensorData, parse

ROWS = {
    "a layer norm of an open size": (
        """
        %x = input "x" : f32[4,N]
        %s = input "s" : f32[N]
        %b = input "b" : f32[N]
        %y = LayerNormalization(%x, %s, %b) {axis=-1} : f32[4,N]
        """,
        "F.layer_norm(x, s.shape, s, b",
    ),
    "a window that ends behind the image": (
        """
        %x = input "x" : f32[N,3,10,9]
        %y = MaxPool(%x) {kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 2]} : f32[N,3,6,5]
        """,
        "F.max_pool2d(x, (3, 2), stride=2, padding=(1, 0), ceil_mode=True)",
    ),
    "a window that starts before the image": (
        """
        %x = input "x" : f32[N,3,8]
        %y = MaxPool(%x) {kernel_shape=[3], pads=[1, 0], strides=[2]} : f32[N,3,4]
        """,
        'F.max_pool1d(F.pad(x, (1, 0), value=float("-inf")), 3, stride=2)',
    ),
    "an average that does not count padding": (
        """
        %x = input "x" : f32[N,3,8]
        %y = AveragePool(%x) {kernel_shape=[3], pads=[0, 1], strides=[2]} : f32[N,3,4]
        """,
        "F.avg_pool1d(x, 3, stride=2, ceil_mode=True)",
    ),
    "an average that counts padding": (
        """
        %x = input "x" : f32[N,3,8]
        %y = AveragePool(%x) {count_include_pad=1, kernel_shape=[3], pads=[0, 1], strides=[2]} : f32[N,3,4]
        """,
        "F.avg_pool1d(F.pad(x, (0, 1)), 3, stride=2)",
    ),
    "slopes of the channels": (
        """
        %x = input "x" : f32[N,4,3]
        %s = param "s" : f32[4]
        %0 = const [4, 1] : i64[2]
        %1 = Reshape(%s, %0) : f32[4,1]
        %y = PRelu(%x, %1) : f32[N,4,3]
        """,
        "F.prelu(x, self.s)",
    ),
    "slopes of the last axis": (
        """
        %x = input "x" : f32[N,4,4]
        %s = param "s" : f32[4]
        %y = PRelu(%x, %s) : f32[N,4,4]
        """,
        "x.clamp(min=0) + self.s * x.clamp(max=0)",
    ),
    "a hard swish": (
        """
        %x = input "x" : f32[N,4]
        %0 = const 3.0 : f32[]
        %1 = Add(%x, %0) : f32[N,4]
        %2 = const 0.0 : f32[]
        %3 = const 6.0 : f32[]
        %4 = Clip(%1, %2, %3) : f32[N,4]
        %5 = Div(%4, %3) : f32[N,4]
        %y = Mul(%x, %5) : f32[N,4]
        """,
        "F.hardswish(x)",
    ),
    "a mean of integers": (
        """
        %x = input "x" : i32[N,3,4]
        %0 = const [1, 2] : i64[2]
        %y = ReduceMean(%x, %0) {keepdims=0} : i32[N]
        """,
        'torch.div(x.sum((1, 2), dtype=torch.int32), 12, rounding_mode="trunc")',
    ),
    "a global mean": (
        """
        %x = input "x" : f32[N,3,4,4]
        %0 = GlobalAveragePool(%x) : f32[N,3,1,1]
        %y = Flatten(%0) : f32[N,3]
        """,
        "x.mean((2, 3))",
    ),
    "attention of tokens that a mask keeps": (
        """
        %x = input "x" : f32[N,2,5,4]
        %k = input "k" : f32[N,2,6,4]
        %m = input "m" : bool[N,1,5,6]
        %y = regraft.ScaledDotProductAttention(%x, %k, %k, %m) {scale=0.25} : f32[N,2,5,4]
        """,
        "F.scaled_dot_product_attention(x, k, k, attn_mask=m, scale=0.25)",
    ),
    "attention to what came before": (
        """
        %x = input "x" : f32[N,5,4]
        %k = input "k" : f32[N,6,4]
        %y = regraft.ScaledDotProductAttention(%x, %k, %k) {is_causal=1} : f32[N,5,4]
        """,
        "F.scaled_dot_product_attention(x, k, k, is_causal=True)",
    ),
}
"""Kind -> (operators, what is written of them)."""


@pytest.mark.parametrize("kind", ROWS)
def test_a_form_is_written_and_computes_the_same(kind, tmp_path):
    operators, written = ROWS[kind]
    graph = parse(f'graph main {{\n{operators}\nreturn "y" = %y\n}}')
    for parameter in graph.parameters():
        values = np.linspace(-0.5, 0.5, parameter.data.shape[0], dtype=np.float32)
        parameter.data = TensorData.of(values)
    assert written in emit_source(graph)
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed


class Logarithms(nn.Cell):
    """Functions that MindSpore's kernels compute with errors of units of 1, however small the result."""

    def __init__(self):
        super().__init__()
        self.log_sigmoid = nn.LogSigmoid()
        self.mish = nn.Mish()

    def construct(self, x):
        return self.log_sigmoid(x), self.mish(x)


def test_coarse_kernels_of_a_source_are_no_differences(tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    graph = regraft.load(Logarithms(), (x,))
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed


def symbol(folder, **attributes):
    """A symbol of MXNet with one BatchNorm, whose stored gamma is not 1."""
    roles = ("gamma", "beta", "moving_mean", "moving_var")
    names = ["data", *(f"bn_{role}" for role in roles)]
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    inputs = [[at, 0, 0] for at in range(len(names))]
    nodes.append({"op": "BatchNorm", "name": "bn", "attrs": {"eps": "1e-3", **attributes}, "inputs": inputs})
    written = {"nodes": nodes, "arg_nodes": list(range(len(names))), "heads": [[len(names), 0, 0]]}
    (folder / "net-symbol.json").write_text(
        json.dumps({**written, "attrs": {"mxnet_version": ["int", 10900]}})
    )
    values = {f"arg:bn_{role}": np.array([0.5, 2, 3], np.float32) for role in roles[:2]}
    values |= {f"aux:bn_{role}": np.array([0.5, 1, 2], np.float32) for role in roles[2:]}
    write_checkpoint(folder / "net-0000.params", {n: TensorData.of(v) for n, v in values.items()})
    return folder / "net-symbol.json"


@pytest.mark.parametrize("is_global", [False, True])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_batch_norm_of_mxnet_trains_as_its_flags_say(is_global, is_fixed, tmp_path):
    graph = regraft.load(
        symbol(tmp_path, fix_gamma=str(is_fixed), use_global_stats=str(is_global)), ["4x3x2x2"]
    )
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    spec = importlib.util.spec_from_file_location(f"bn_{is_global}_{is_fixed}", tmp_path / "net" / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.build().train()
    x = torch.randn(4, 3, 2, 2)
    mean, variance, scale = (torch.tensor(v) for v in ([0.5, 1, 2], [0.5, 1, 2], [0.5, 2, 3]))
    gamma = torch.ones(3) if is_fixed else scale
    wanted = F.batch_norm(
        x, mean.clone(), variance.clone(), gamma, scale, training=not is_global, momentum=0.1, eps=1e-3
    )
    torch.testing.assert_close(net(x), wanted)
    statistics = {tuple(v.tolist()) for n, v in net.state_dict().items() if "mean" in n}
    assert (statistics == {(0.5, 1.0, 2.0)}) == is_global
    assert len([p for p in net.parameters() if p.requires_grad]) == (1 if is_fixed else 2)


class Layers(nn.Cell):
    """Layers of MindSpore that it computes in steps, and one whose bias it draws where torch has zeros."""

    def __init__(self):
        super().__init__()
        self.act = nn.LeakyReLU(0.3)
        self.slopes = nn.PReLU(6)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def construct(self, x):
        return self.attention(*[self.slopes(self.act(x))] * 3)[0]


def test_layers_of_mindspore_are_layers_with_their_laws(tmp_path):
    graph = regraft.load(Layers(), ["4x6x8"])
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    text = (tmp_path / "net" / "model.py").read_text()
    for line in (
        "self.act = nn.LeakyReLU(negative_slope=0.3)",
        "self.slopes = nn.PReLU(num_parameters=6)",
        "nn.init.uniform_(layer.out_proj.bias",
    ):
        assert line in text
