"""Cases of ONNX's own test suite in emitted MindSpore source: what ONNX defines by other operators."""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import regraft
from regraft.ir import Graph, UnsupportedError
from regraft.verification.runners.emitted_net import emitted_net

CASES = (
    "test_attention_4d_diff_heads_with_past_and_present_mask4d",
    "test_attention_3d_gqa_softcap",
    "test_attention_4d_with_qk_matmul_softmax",
    "test_clip_default_inbounds",
    "test_clip_example",
    "test_group_normalization_epsilon",
    "test_layer_normalization_3d_axis1_epsilon",
    "test_mvn",
    "test_nllloss_NCd1d2_with_weight_reduction_sum_ii",
    "test_range_float16_type_positive_delta",
    "test_reduce_log_sum_default",
    "test_rms_normalization_3d_axis1_epsilon",
    "test_rotary_embedding_3d_input",
    "test_sce_NCd1d2d3_none_no_weight_negative_ii_log_prob",
    "test_sce_mean_weight_ii",
    "test_selu",
)

SETTINGS = (
    "test_center_crop_pad_crop_and_pad",
    "test_constant_pad_negative_axes",
    "test_cumsum_1d_exclusive",
    "test_expand_dim_unchanged",
    "test_nonmaxsuppression_limit_output_size",
    "test_onehot_negative_indices",
    "test_reduce_l1_empty_set",
    "test_reduce_log_sum_asc_axes",
    "test_reduce_sum_negative_axes_keepdims_example",
    "test_reshape_allowzero_reordered",
    "test_reshape_zero_and_negative_dim",
    "test_resize_downsample_scales_cubic_antialias",
    "test_resize_downsample_sizes_nearest_not_larger",
    "test_resize_tf_crop_and_resize",
    "test_slice_neg_steps",
    "test_slice_start_out_of_bounds",
    "test_split_variable_parts_2d_opset18",
    "test_squeeze_negative_axes",
    "test_top_k_smallest",
    "test_tril_neg",
    "test_unsqueeze_unsorted_axes",
)
"""Cases whose axes, shapes, bounds, scales or counts are inputs."""

FILES = (
    *(
        "attention",
        "center_crop_pad",
        "clip",
        "cumsum",
        "expand",
        "groupnormalization",
        "layernormalization",
        "rangeop",
    ),
    *(
        "meanvariancenormalization",
        "negativeloglikelihoodloss",
        "reduce_log_sum",
        "reducesum",
        "selu",
        "slice",
    ),
    *("rmsnormalization", "rotaryembedding", "softmax_cross_entropy_loss"),
    *("nonmaxsuppression", "onehot", "pad", "reducel1", "reshape", "resize", "split", "squeeze", "topk"),
    *("trilu", "unsqueeze"),
)
"""Files of the suite that have these cases; importing all of them takes ten times as long."""


@pytest.fixture(scope="module")
def suite() -> dict:
    import onnx.backend.test.case.node as suite

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in FILES:
            importlib.import_module(f"{suite.__name__}.{name}")
        return {case.name: case for case in suite._NodeTestCases}


def emitted(graph: Graph, folder: Path) -> list[np.ndarray]:
    """What the emitted source of a graph computes on the inputs that it was read with."""
    import mindspore as ms

    regraft.save(graph, folder, to="mindspore")
    net, _, name = emitted_net(folder)
    found = net(*(ms.Tensor(array) for array in graph.origin.inputs.values()))
    sys.modules.pop(name, None)
    return [t.asnumpy() for t in (found if isinstance(found, (list, tuple)) else [found])]


def read(model: onnx.ModelProto, *inputs: np.ndarray) -> Graph:
    names = [i.name for i in model.graph.input]
    return regraft.rewrite(regraft.load(model, dict(zip(names, inputs, strict=False)))).graph


@pytest.mark.parametrize("name", CASES + SETTINGS)
def test_a_case_of_the_suite_is_right_in_mindspore(name, suite, tmp_path):
    case = suite[name]
    for inputs, expected in case.data_sets:
        found = emitted(read(case.model, *inputs), tmp_path / "net")
        assert len(found) == len(expected)
        for array, wanted in zip(found, expected, strict=True):
            assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(array, wanted, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize(
    "name", ["test_attention_4d_gqa", "test_sce_mean_weight_ii", "test_rotary_embedding"]
)
def test_a_body_compiles_as_a_graph(name, suite, tmp_path):
    import mindspore as ms

    case = suite[name]
    (inputs, expected) = case.data_sets[0]
    start = ms.get_context("mode")
    try:
        graph = read(case.model, *inputs)
        regraft.save(graph, tmp_path / "net", to="mindspore")
        net, *_ = emitted_net(tmp_path / "net")
        ms.set_context(mode=ms.GRAPH_MODE)
        found = net(*(ms.Tensor(array) for array in graph.origin.inputs.values()))
    finally:
        ms.set_context(mode=start)
    np.testing.assert_allclose(found.asnumpy(), expected[0], rtol=case.rtol, atol=1e-6)


def test_statistics_of_a_layer_norm_keep_their_digits_where_the_mean_is_large(tmp_path):
    """ONNX's definition takes the variance for a difference of squares, which has none of them left here."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[4, 8] x, float[8] scale) => (float[4, 8] y, float[4, 1] mean, float[4, 1] deviation) {
          y, mean, deviation = LayerNormalization (x, scale)
        }
        """
    )
    draw = np.random.default_rng(3)
    x = (1000 + draw.standard_normal((4, 8))).astype(np.float32)
    y, mean, deviation = emitted(read(model, x, np.ones(8, np.float32)), tmp_path / "net")
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    wanted = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(mean, wide.mean(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(deviation, wanted, rtol=1e-3)
    np.testing.assert_allclose(y, centred * wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("operator", "result"), [("ReduceMax", "float[A, B] y"), ("Unsqueeze", "float[A, B, C] y")]
)
def test_axes_of_unknown_count_are_refused_by_name(operator, result, tmp_path):
    """The rank of the result would depend on it."""
    model = parser.parse_model(
        f"""
        <ir_version: 8, opset_import: ["" : 18]>
        net (float[N, M] x, int64[K] axes) => ({result}) {{ y = {operator} (x, axes) }}
        """
    )
    with pytest.raises(UnsupportedError) as raised:
        regraft.save(read(model), tmp_path / "net", to="mindspore")
    assert f"{operator}: 1 use" in str(raised.value)
    assert "because `axes` would have to be known before a run" in str(raised.value)


def in_both_modes(net, *arrays: np.ndarray):
    """(result, gradient of its sum by the first array), in PyNative and in graph mode."""
    import mindspore as ms

    start = ms.get_context("mode")
    found = []
    try:
        for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            ms.set_context(mode=mode)
            tensors = [ms.Tensor(array) for array in arrays]
            found.append([net(*tensors).asnumpy(), ms.grad(net, 0)(*tensors).asnumpy()])
    finally:
        ms.set_context(mode=start)
    return found


def test_settings_are_inputs_in_graph_mode_too_and_gradients_pass(tmp_path):
    """One net at several values of its settings; a gradient counts how often each element is taken."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        net (float[4, 6] x, int64[2] from, int64[2] to, int64[2] axes, int64[4] pads, int64[1] over)
            => (float[1, A] y) {
          part = Slice (x, from, to, axes)
          wide = Pad <mode = "reflect"> (part, pads)
          y = ReduceSum (wide, over)
        }
        """
    )
    draw = np.random.default_rng(2)
    x = draw.standard_normal((4, 6)).astype(np.float32)
    settings = [[[1, 0], [6, 3], [1, 0], [1, 2, 1, 0], [0]], [[-4, 1], [4, -1], [0, -1], [0, 0, 2, 3], [-2]]]
    graph = read(model, x, *map(np.array, settings[0]))
    regraft.save(graph, tmp_path / "net", to="mindspore")
    net, *_ = emitted_net(tmp_path / "net")
    names = [i.name for i in model.graph.input]
    for given in settings:
        arrays = [x, *map(np.array, given)]
        (expected,) = ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))
        places = np.arange(24, dtype=np.float32).reshape(4, 6)
        cut = {axis % 2: slice(a, b) for a, b, axis in zip(*given[:3], strict=True)}
        taken = np.pad(places[cut[0], cut[1]], np.array(given[3]).reshape(2, 2).T, mode="reflect")
        counts = np.bincount(taken.astype(int).ravel(), minlength=24).reshape(4, 6)
        for found, gradient in in_both_modes(net, *arrays):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(gradient, counts)


def test_a_resize_at_sizes_that_a_run_gives_is_the_reference_evaluators(tmp_path):
    """At several sizes, shrinking and growing; the gradient of a sum is the product with its weights."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        net (float[1, 2, 5, 7] x, int64[2] to) => (float[1, 2, H, W] y) {
          y = Resize <mode = "cubic", axes = [3, 2], antialias = 1, exclude_outside = 1> (x, , , to)
        }
        """
    )
    draw = np.random.default_rng(4)
    x = draw.standard_normal((1, 2, 5, 7)).astype(np.float32)
    graph = read(model, x, np.array([3, 9]))
    regraft.save(graph, tmp_path / "net", to="mindspore")
    net, *_ = emitted_net(tmp_path / "net")
    reference = ReferenceEvaluator(model)
    for to in ([3, 9], [13, 1]):
        (expected,) = reference.run(None, {"x": x, "to": np.array(to)})
        for found, gradient in in_both_modes(net, x, np.array(to)):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose((gradient * x).sum(), expected.sum(), rtol=1e-3, atol=1e-3)


def test_a_loss_is_one_call_and_has_the_gradient_of_its_formula(tmp_path):
    import mindspore as ms

    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[6, 5] x, int64[6] t) => (float y) {
          y = SoftmaxCrossEntropyLoss <ignore_index = 2> (x, t)
        }
        """
    )
    draw = np.random.default_rng(5)
    x, labels = draw.standard_normal((6, 5)).astype(np.float32), np.array([0, 2, 4, 1, 2, 3])
    x[0, 0] = 20  # a loss near zero
    graph = read(model, x, labels)
    regraft.save(graph, tmp_path / "net", to="mindspore")
    assert "ops.nll_loss(" in (tmp_path / "net" / "model.py").read_text()
    net, _, _ = emitted_net(tmp_path / "net")
    loss, gradient = ms.value_and_grad(net)(ms.Tensor(x), ms.Tensor(labels))
    wide = np.exp(x.astype(np.float64))
    shares = wide / wide.sum(1, keepdims=True)
    counts = labels != 2
    expected = -np.log(shares[np.arange(6), labels])[counts].mean()
    np.testing.assert_allclose(loss.asnumpy(), expected, rtol=1e-6)
    wanted = (shares - np.eye(5)[labels]) * counts[:, None] / counts.sum()
    np.testing.assert_allclose(gradient.asnumpy(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["attention", "rotary"])
def test_a_body_holds_at_other_batches_and_lengths(name, tmp_path):
    import mindspore as ms

    draw = np.random.default_rng(11)

    def made(batch: int, length: int) -> list[np.ndarray]:
        if name == "rotary":
            shapes = (batch, length, 16), (50, 4), (50, 4)
            places = [draw.integers(0, 50, (batch, length))]
        else:
            shapes, places = ((batch, length, 16), (batch, length + 2, 8), (batch, length + 2, 8)), []
        return [*(draw.standard_normal(shape).astype(np.float32) for shape in shapes), *places]

    body = {
        "attention": "float[N, L, 16] q, float[N, S, 8] k, float[N, S, 8] v) => (float[N, L, 16] y) {"
        "y = Attention <q_num_heads = 4, kv_num_heads = 2, softcap = 2.0> (q, k, v) }",
        "rotary": "float[N, L, 16] q, float[50, 4] k, float[50, 4] v, int64[N, L] p) => (float[N, L, 16] y) {"
        "y = RotaryEmbedding <num_heads = 2> (q, k, v, p) }",
    }
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> net ({body[name]}')
    graph = read(model, *made(2, 6))
    assert not graph.origin.notes
    regraft.save(graph, tmp_path / "net", to="mindspore")
    net, *_ = emitted_net(tmp_path / "net")
    for sizes in ((2, 6), (3, 5), (1, 4)):
        arrays = made(*sizes)
        feeds = dict(zip([i.name for i in model.graph.input], arrays, strict=True))
        (expected,) = ReferenceEvaluator(model).run(None, feeds)
        found = net(*(ms.Tensor(array) for array in arrays)).asnumpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
