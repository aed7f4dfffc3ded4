"""ONNX's Attention as PyTorch source: torch's function where that is all of it, else its parts."""

import importlib.util

import numpy as np
import onnx
import pytest
import torch
from onnx import parser
from onnx.reference import ReferenceEvaluator
from torch.utils import _pytree as pytree

import regraft
from regraft.backends.torch_source import write

FOUR, GROUPED, FLAT = "float[2,4,5,6]", "float[2,2,5,6]", "float[2,5,24]"
MASK, TRUTH = ", float[5,5] m", ", bool[2,1,5,5] m"
FLAT_HEADS = "q_num_heads = 4, kv_num_heads = "
ATTENTION = {  # inputs of queries, keys and the mask; attributes; whether torch's function is all of it
    "plain": (FOUR, FOUR, "", "", True),
    "grouped, scaled and causal": (FOUR, GROUPED, "", "scale = 0.3, is_causal = 1", True),
    "masked, with a row without a key": (FOUR, GROUPED, TRUTH, "", True),
    "with a sum": (FOUR, FOUR, MASK, "", True),
    "flat": (FLAT, FLAT, "", f"{FLAT_HEADS} 4", True),
    "flat and grouped": (FLAT, "float[2,5,12]", MASK, f"{FLAT_HEADS} 2", True),
    "keys of another number": (FOUR, "float[2,4,3,6]", "", "is_causal = 1", True),
    "causal beside a mask": (FOUR, FOUR, MASK, "is_causal = 1", False),
    "with a soft cap": (FOUR, FOUR, "", "softcap = 2.0", False),
    "with caches": (FOUR, FOUR, ", float[5,8] m, float[2,4,3,6] pk, float[2,4,3,6] pv", "", False),
    "with scores": (FOUR, FOUR, MASK, "qk_matmul_output_mode = 3", False),
}


@pytest.mark.parametrize("form", ATTENTION)
def test_attention_of_onnx(form, tmp_path):
    queries, keys, more, attributes, is_whole = ATTENTION[form]
    inputs = ["q", "k", "v", *(part.split()[-1] for part in more.split(", ")[1:])]
    outputs = {"with caches": ["y", "a", "b"], "with scores": ["y", "", "", "s"]}.get(form, ["y"])
    head = f"({queries} q, {keys} k, {keys} v{more}) => ({', '.join(f'float {o}' for o in outputs if o)})"
    results = ", ".join(o or '""' for o in outputs)
    how = attributes and f"<{attributes}>"
    node = f"{results} = Attention {how} ({', '.join(inputs)})"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> net {head} {{ {node} }}')
    draw, arrays = np.random.default_rng(1), []
    for given in model.graph.input:
        shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
        is_truth = given.type.tensor_type.elem_type == onnx.TensorProto.BOOL
        arrays.append(
            draw.random(shape) > 0.4 if is_truth else draw.standard_normal(shape).astype(np.float32)
        )
        if is_truth:
            arrays[-1][:, :, 2] = False
    graph = regraft.load(model, dict(zip(inputs, arrays, strict=True)))
    write(regraft.rewrite(graph).graph, tmp_path / "out")
    spec = importlib.util.spec_from_file_location("attention_of_onnx", tmp_path / "out/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = pytree.tree_leaves(module.build()(*map(torch.from_numpy, arrays)))
    expected = ReferenceEvaluator(model).run(None, dict(zip(inputs, arrays, strict=True)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-5)
    assert ("F.scaled_dot_product_attention" in (tmp_path / "out/model.py").read_text()) == is_whole
