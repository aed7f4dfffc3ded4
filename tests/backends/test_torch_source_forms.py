"""Forms of operators as PyTorch source: what is written, and that it computes what the graph does."""

import numpy as np
import pytest
from mindspore import nn

import regraft
from regraft.backends.torch_source import emit_source
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
    "a global mean": (
        """
        %x = input "x" : f32[N,3,4,4]
        %0 = GlobalAveragePool(%x) : f32[N,3,1,1]
        %y = Flatten(%0) : f32[N,3]
        """,
        "x.mean((2, 3))",
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
