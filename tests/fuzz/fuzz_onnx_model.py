"""ONNX files as models: a convolutional net, a function, sequences, control flow, old opsets."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import numpy as np
from onnx import ModelProto, StringStringEntryProto, TensorProto, numpy_helper, parser

from .fuzz_mxnet import assert_holds_no_code_of_its_source
from .mutation import mutate_message
from .oracle import command
from .registry import Target

_CONV = """
<ir_version: 8, opset_import: ["" : 17]>
images (float[batch, 1, 6, 6] x) => (float[batch, 3] y) {
  a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, conv_weight, conv_bias)
  b = Relu (a)
  c = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
  s = Shape (c)
  zero = Constant <value_int: int = 0> ()
  n = Gather (s, zero)
  one = Constant <value_ints: ints = [-1]> ()
  axes = Constant <value_ints: ints = [0]> ()
  rows = Unsqueeze (n, axes)
  wanted = Concat <axis = 0> (rows, one)
  d = Reshape (c, wanted)
  y = Gemm <transB = 1> (d, fc_weight, fc_bias)
}
"""
_WORDS = """
<ir_version: 8, opset_import: ["" : 18, "own" : 1, "com.microsoft" : 1]>
words (int64[N, 3] ids) => (float[N, 3, 4] y, int64 count) {
  x = Gather (embed_weight, ids)
  h = own.Block <scale: float = 0.5> (x, proj_weight)
  z = com.microsoft.SkipLayerNormalization (h, x, norm_weight, norm_bias)
  parts = SplitToSequence <axis = 1> (z)
  count = SequenceLength (parts)
  y = ConcatFromSequence <axis = 1> (parts)
}
<opset_import: ["" : 18], domain: "own">
Block <scale> (x, w) => (y) {
  k = MatMul (x, w)
  by = Constant <value_float: float = @scale> ()
  s = Mul (k, by)
  y = Softmax <axis = -1> (s)
}
"""
_TURNS = """
<ir_version: 8, opset_import: ["" : 16]>
turns (float[2, 3] x, bool flag) => (float[2, 3] y, float[n, 2, 3] all) {
  trips = Constant <value_int: int = 3> ()
  yes = Constant <value = bool {1}> ()
  last, all = Loop (trips, yes, x) <body = body (int64 i, bool going, float[2, 3] state)
      => (bool more, float[2, 3] next, float[2, 3] out) {
    more = Identity (going)
    next = Add (state, weight)
    out = Mul (next, next)
  }>
  y = If (flag) <then_branch = yes () => (float[2, 3] p) { p = Neg (last) },
                 else_branch = no () => (float[2, 3] q) { q = Exp (last) }>
}
"""
_OLD = """
<ir_version: 3, opset_import: ["" : 7]>
old (float[2, 4, 5] x) => (float[2, 20] y) {
  a = Softmax <axis = 1> (x)
  b = Pad <pads = [0, 0, 1, 0, 0, 1], value = 2.0> (a)
  c = Slice <axes = [2], starts = [1], ends = [6]> (b)
  d = Clip <min = 0.0, max = 0.5> (c)
  e = Dropout <ratio = 0.5> (d)
  y = Flatten <axis = 1> (e)
}
"""


@cache
def seeds() -> list[bytes]:
    draw = np.random.default_rng(0)
    weights = {
        _CONV: {"conv_weight": (2, 1, 3, 3), "conv_bias": (2,), "fc_weight": (3, 18), "fc_bias": (3,)},
        _WORDS: {"embed_weight": (6, 4), "proj_weight": (4, 4), "norm_weight": (4,), "norm_bias": (4,)},
        _TURNS: {"weight": (2, 3)},
        _OLD: {},
    }
    found: list[ModelProto] = []
    for text, shapes in weights.items():
        model = parser.parse_model(text)
        model.graph.initializer.extend(
            numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32), name)
            for name, shape in shapes.items()
        )
        found.append(model)
    outside = ModelProto.FromString(found[0].SerializeToString())
    tensor = outside.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "data"), ("offset", "8"), ("length", "72")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    found.append(outside)
    found[0].graph.node[0].metadata_props.append(
        _entry("pkg.torch.onnx.name_scopes", "['', 'conv', 'conv2d']")
    )
    found[0].graph.node[0].metadata_props.append(
        _entry("pkg.torch.onnx.class_hierarchy", "['net.Net', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d']")
    )
    return [model.SerializeToString() for model in found]


def _entry(key: str, value: str) -> StringStringEntryProto:
    return StringStringEntryProto(key=key, value=value)


def _run(data: bytes, folder: Path) -> int:
    path = folder / "given" / "net.onnx"
    path.write_bytes(data)
    (folder / "given" / "data").write_bytes(bytes(range(120)))
    choice = zlib.crc32(data) % 10
    if choice < 3:
        return command("show", path, "--ir")
    if choice < 4:
        return command("check", path)
    if choice < 5:
        return command("rewrite", path, "-o", folder / "out" / "net.onnx")
    if choice < 8:
        return command("rewrite", path, "-o", folder / "out" / "net.onnx", "--no-verify")
    code = command("rewrite", path, "-o", folder / "out", "--to", "mindspore", "--no-verify")
    if code == 0:
        assert_holds_no_code_of_its_source(folder / "out")
    return code


TARGETS = [Target("onnx_model", seeds, mutate_message, _run)]
