"""Twins that are computed as one batch: the same as one by one, and refused where samples may meet."""

import json

import numpy as np
import pytest

import regraft
from regraft.ir import PassError, TensorData, parse, validate
from regraft.ir.analysis.restriction import restrict
from regraft.passes import TieWeights

from ..corpora.mxnet.cases import save_params
from .oracle import evaluate
from .test_twins import X, symbol

BATCH = TieWeights(twin=(("x", "y", "z"),), strategy="batch")
PER_SAMPLE = {
    "elementwise": "%a = Tanh(%x) : f32[N,3,4,4]",
    "broadcast": '%p = param "p" : f32[3,1,1]\n%a = Add(%x, %p) : f32[N,3,4,4]',
    "both": "%b = Relu(%x) : f32[N,3,4,4]\n%a = Mul(%b, %x) : f32[N,3,4,4]",
    "Conv": '%p = param "p" : f32[2,3,3,3]\n%a = Conv(%x, %p) : f32[N,2,2,2]',
    "pool": "%a = GlobalAveragePool(%x) : f32[N,3,1,1]",
    "Softmax": "%a = Softmax(%x) {axis=1} : f32[N,3,4,4]",
    "CumSum": "%p = const 1 : i64[]\n%a = CumSum(%x, %p) : f32[N,3,4,4]",
    "ArgMax": "%a = ArgMax(%x) {axis=-1, keepdims=0} : i64[N,3,4]",
    "Reduce": "%p = const [2, 3] : i64[2]\n%a = ReduceMean(%x, %p) {keepdims=0} : f32[N,3]",
    "Concat": "%b = Relu(%x) : f32[N,3,4,4]\n%a = Concat(%b, %x) {axis=1} : f32[N,6,4,4]",
    "Gather": "%p = const [2, 0] : i64[2]\n%a = Gather(%x, %p) {axis=1} : f32[N,2,4,4]",
    "rows": '%p = param "p" : f32[5,2]\n%b = Cast(%x) {to=7} : i64[N,3,4,4]\n'
    "%a = Gather(%p, %b) {axis=0} : f32[N,3,4,4,2]",
    "Flatten": "%a = Flatten(%x) : f32[N,48]",
    "Reshape": "%p = const [-1, 6, 8] : i64[3]\n%a = Reshape(%x, %p) : f32[N,6,8]",
    "copied": "%p = const [0, 48] : i64[2]\n%a = Reshape(%x, %p) : f32[N,48]",
    "Transpose": "%a = Transpose(%x) {perm=[1, 2, 0, 3]} : f32[3,4,N,4]",
    "turned": "%p = const [0] : i64[1]\n%b = Transpose(%x) {perm=[1, 2, 0, 3]} : f32[3,4,N,4]\n"
    "%a = ReduceMax(%b, %p) {keepdims=0} : f32[4,N,4]",
    "Squeeze": "%p = const [1] : i64[1]\n%b = GlobalMaxPool(%x) : f32[N,3,1,1]\n"
    "%c = Transpose(%b) {perm=[2, 3, 0, 1]} : f32[1,1,N,3]\n%a = Squeeze(%c, %p) : f32[1,N,3]",
    "Unsqueeze": "%p = const [0, -1] : i64[2]\n%a = Unsqueeze(%x, %p) : f32[1,N,3,4,4,1]",
    "Slice": "%p = const [1] : i64[1]\n%q = const [3] : i64[1]\n%a = Slice(%x, %p, %q, %p) : f32[N,2,4,4]",
    "Split": "%a = Split(%x) {axis=2, num_outputs=2} : f32[N,3,2,4], f32[N,3,2,4]",
    "Pad": "%p = const [0, 0, 1, 1, 0, 0, 1, 1] : i64[8]\n%a = Pad(%x, %p) : f32[N,3,6,6]",
    "Tile": "%p = const [1, 2, 1, 1] : i64[4]\n%a = Tile(%x, %p) : f32[N,6,4,4]",
    "LayerNorm": '%p = param "p" : f32[4]\n%a = LayerNormalization(%x, %p) {axis=-1} : f32[N,3,4,4]',
    "Linear": '%p = param "p" : f32[2,4]\n%a = regraft.Linear(%x, %p) : f32[N,3,4,2]',
    "MatMul": '%p = param "p" : f32[4,2]\n%a = MatMul(%x, %p) : f32[N,3,4,2]',
    "matrices": "%b = Relu(%x) : f32[N,3,4,4]\n%a = MatMul(%x, %b) : f32[N,3,4,4]",
}
MIXED = {
    "has an operand as large": '%p = param "p" : f32[2,3,4,4]\n%a = Add(%x, %p) : f32[2,3,4,4]',
    "works along the batch": "%a = Softmax(%x) {axis=0} : f32[N,3,4,4]",
    "`Concat` works": "%a = Concat(%x, %x) {axis=0} : f32[2*N,3,4,4]",
    "reduces over": "%p = const [0] : i64[1]\n%a = ReduceSum(%x, %p) : f32[1,3,4,4]",
    "`ReduceMax` reduces": "%a = ReduceMax(%x) {keepdims=0} : f32[]",
    "size of the batch in": "%p = const [2, 48] : i64[2]\n%a = Reshape(%x, %p) : f32[2,48]",
    "moves the batch": "%p = const [-1, 4] : i64[2]\n%a = Reshape(%x, %p) : f32[12*N,4]",
    "`Flatten` moves": "%a = Flatten(%x) {axis=2} : f32[3*N,16]",
    "cuts the batch": "%p = const [0] : i64[1]\n%q = const [1] : i64[1]\n"
    "%a = Slice(%x, %p, %q, %p) : f32[1,3,4,4]",
    "pads the batch": "%p = const [1, 0, 0, 0, 0, 0, 0, 0] : i64[8]\n%a = Pad(%x, %p) : f32[N+1,3,4,4]",
    "repeats the batch": "%p = const [2, 1, 1, 1] : i64[4]\n%a = Tile(%x, %p) : f32[2*N,3,4,4]",
    "normalises over": '%p = param "p" : f32[3,4,4]\n%a = LayerNormalization(%x, %p) {axis=0} : f32[N,3,4,4]',
    "`GlobalMaxPool` does not keep": "%b = Transpose(%x) {perm=[1, 0, 2, 3]} : f32[3,N,4,4]\n"
    "%a = GlobalMaxPool(%b) : f32[3,N,1,1]",
    "draws numbers": "%a = RandomNormalLike(%x) : f32[N,3,4,4]",
    "not known to keep": "%p = const [1] : i64[1]\n%a = TopK(%x, %p) : f32[N,3,4,1], i64[N,3,4,1]",
    "its gradient by the batch": '%a = regraft.MakeLoss(%x) {normalization="batch"} : f32[N,3,4,4]',
    "head of a loss": "%a = regraft.SoftmaxOutput(%x) : f32[N,3,4,4]",
    "`Shape` is not": "%a = Shape(%x) : i64[4]",
}


def net(body):
    batch = "N" if "N" in body.replace("Norm", "") else "2"
    lines = "\n".join(f"  {line}" for line in body.splitlines())
    head = f'graph main {{\n  module "" Net\n  %x = input "x" : f32[{batch},3,4,4]\n'
    graph = parse(f'{head}{lines}\n  return "out" = %a\n}}')
    for parameter in graph.parameters():
        values = np.random.default_rng(1).uniform(-2, 2, parameter.data.shape).astype(np.float32)
        parameter.data = TensorData.of(values)
    return graph


@pytest.mark.parametrize("body", PER_SAMPLE.values(), ids=PER_SAMPLE)
def test_one_batch_of_three_branches_is_what_three_runs_are(body):
    graph, rng = net(body), np.random.default_rng(0)
    given = [rng.uniform(0, 2, (2, 3, 4, 4)).astype(np.float32) for _ in range(3)]
    apart = [evaluate(graph, each)[0] for each in given]
    (first, second) = BATCH.run(graph)
    assert (first.code, second.code) == ("TW105", "TW105")
    validate(graph)
    assert [name for name, _ in graph.outputs] == ["out", "out_y", "out_z"]
    assert len({str(graph.type_of(value)) for _, value in graph.outputs}) == 1
    for one, expected in zip(evaluate(graph, *given), apart, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)
    alone = restrict(graph, ["x"])
    np.testing.assert_allclose(evaluate(alone, given[0])[0], apart[0], rtol=1e-5, atol=1e-6)
    assert BATCH.run(graph) == []


@pytest.mark.parametrize(("reason", "body"), MIXED.items(), ids=MIXED)
def test_branches_whose_samples_meet_are_not_one_batch(reason, body):
    graph = net(body)
    before = str(graph)
    with pytest.raises(PassError) as caught:
        BATCH.run(graph)
    assert caught.value.code == "E501"
    assert reason in caught.value.message
    assert str(graph) == before


def norm(folder, **attributes):
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "g", "b", "m", "v")]
    nodes.append(
        {"op": "BatchNorm", "name": "bn", "inputs": [[i, 0, 0] for i in range(5)], "attrs": attributes}
    )
    path = folder / "bn-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[5, 0, 0]]}))
    save_params(folder / "bn-0000.params", {f"arg:{n}": np.ones(1, np.float32) for n in "gbmv"})
    return regraft.load(path, {"data": X})


def test_a_batch_norm_that_trains_is_not_one_batch(tmp_path):
    pair = TieWeights(twin=(("data", "more"),), strategy="batch")
    with pytest.raises(PassError, match="`bn` is normalised by its batch in training"):
        pair.run(norm(tmp_path))
    frozen = norm(tmp_path, use_global_stats="True")
    assert [c.code for c in pair.run(frozen)] == ["TW105"]
    calls = TieWeights(twin=(("data", "other"),))
    assert [c.code for c in calls.run(norm(tmp_path))] == ["TW108", "TW105"]
    assert [c.code for c in calls.run(norm(tmp_path, use_global_stats="True"))] == ["TW105"]


def test_one_batch_is_split_again_in_every_target_and_keeps_its_size_open(tmp_path):
    path = symbol(tmp_path, [""])
    for target in ("mxnet", "onnx"):
        graph = regraft.load(path, {"data0": X})
        rewritten = regraft.rewrite(graph, ["tie-weights:twin=data0+pos+neg,at=relu1_output,strategy=batch"])
        out = tmp_path / ("net.onnx" if target == "onnx" else "net")
        _, report = regraft.rewrite_file(graph, rewritten, out, target)
        assert report is not None
        assert report.passed
    again = regraft.load(tmp_path / "net" / "net-symbol.json", {"data0": X, "pos": X, "neg": X})
    assert [again.type_of(value).shape for _, value in again.outputs] == [("N", 4, 6, 6)] * 3
