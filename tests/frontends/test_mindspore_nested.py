"""MindSpore Cells with nested arguments and results: dicts, tuples in tuples, None, numbers and texts."""

import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import regraft
from regraft import rewrite_file

X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
H = np.ones((2, 4), np.float32)


class Ranked(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Dense(8, 4)

    def construct(self, x):
        y = self.head(x)
        values, places = ops.topk(y, 2)
        return ops.log_softmax(y, -1), (values, places)


class Named(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.aux = nn.Dense(8, 4), nn.Dense(4, 4)

    def construct(self, x):
        y = self.head(x)
        return {"logits": y, "aux": [self.aux(y), None], "kind": "net"}


class OneKey(Named):
    def construct(self, x):
        return {"logits": self.head(x)}


class WithNone(Named):
    def construct(self, x):
        return self.head(x), None


class Stateful(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Dense(8, 4)

    def construct(self, pair, state=None, scale=1.0, double=False):
        a, b = pair
        y = self.head(a + b) * scale
        if state is not None:
            y = y + state["h"]
        return y * 2 if double else y


CASES = {
    "tuple in a tuple": (Ranked, [X], ["output0", "output1_0", "output1_1"], "(x, y)"),
    "dict, list and None": (Named, [X], ["logits", "aux_0"], '{"logits": x, "aux": [aux, None]}'),
    "dict of one": (OneKey, [X], ["logits"], 'return {"logits": self.head(x)}'),
    "None": (WithNone, [X], ["output0"], "return self.head(x), None"),
    "nested arguments": (Stateful, [(X, X), {"h": H}, 0.5, True], ["output"], "pair_0, pair_1, state_h"),
}

TESTED = ("dict, list and None", "nested arguments")
"""Cases whose emitted tests are run, too, each in a process of its own."""


@pytest.mark.parametrize("name", CASES)
def test_results_come_back_nested(name: str, tmp_path: Path) -> None:
    """In PyNative and graph mode, and as flat outputs in ONNX; the net itself runs as before."""
    kind, inputs, outputs, text = CASES[name]
    net = kind()
    net.set_train(False)
    graph = regraft.load(net, inputs)
    assert [n for n, _ in graph.outputs] == outputs
    assert not [n for n in graph.origin.notes if "boundaries" in n or "static" in n], graph.origin.notes
    rewritten = regraft.rewrite(graph)
    _, report = rewrite_file(graph, rewritten, tmp_path / "net", "mindspore", emit_tests=True)
    assert report is not None
    assert report.passed
    source = (tmp_path / "net" / "model.py").read_text()
    assert text in source, source
    _, report = rewrite_file(graph, rewritten, tmp_path / "net.onnx")
    assert report is not None
    assert report.passed
    assert not {"construct", "regraft_nested"} & set(vars(net))
    if name not in TESTED:
        return
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "net",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_texts_in_a_result_are_left_out_and_said() -> None:
    graph = regraft.load(Named(), [X])
    assert "the output `kind` is the text `net`: left out" in graph.origin.notes
    assert graph.origin.results == {"logits": "logits", "aux": ["aux_0", None]}


def test_numbers_are_constants() -> None:
    graph = regraft.load(Stateful(), {"pair": (X, X), "state": None, "scale": 0.5})
    assert [n.name for n in graph.input_nodes()] == ["pair_0", "pair_1"]
    assert graph.type_of(graph.outputs[0][1]).shape == ("N", 4)


def test_a_result_of_another_kind_is_refused() -> None:
    class Odd(nn.Cell):
        def construct(self, x):
            return {1.5: x}

    with pytest.raises(regraft.RegraftError, match=r"E104 expected texts as keys of the results, got `1\.5`"):
        regraft.load(Odd(), [X])


def test_live_nets_with_dicts_run_in_both_frameworks() -> None:
    """`verify` of two nets whose results nest otherwise compares them in order."""

    class Flat(Named):
        def construct(self, x):
            y = self.head(x)
            return y, self.aux(y)

    ms.set_seed(3)
    first, second = Named(), Flat()
    ms.load_param_into_net(second, first.parameters_dict())
    report = regraft.verify(first, second, [X])
    assert report.passed, report.render()
