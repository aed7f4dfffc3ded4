"""Nets under debugging: prints, dumps, summaries, asserts and hooks change no value, and are one note."""

import importlib.util
import re
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import regraft
from regraft.api import targets

X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


class Base(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Dense(8, 4), nn.Dense(4, 4)

    def construct(self, x):
        return self.last(self.first(x))


class Printing(Base):
    def __init__(self) -> None:
        super().__init__()
        self.show = ops.Print()

    def construct(self, x):
        y = self.first(x)
        self.show("y is", y, y.shape)
        print(f"y is {y}")
        print("y is {}".format(y))  # noqa: UP032 - one of the forms
        print("y is %s" % y)  # noqa: UP031 - another
        return self.last(y)


class Checking(Base):
    def construct(self, x):
        y = self.first(x)
        assert x.shape[1] == 8
        assert (y > -1e9).all(), "too small"
        return self.last(y)


class Recording(Base):
    def __init__(self) -> None:
        super().__init__()
        self.scalar, self.histogram = ops.ScalarSummary(), ops.HistogramSummary()
        self.check = ops.Assert()

    def construct(self, x):
        y = self.first(x)
        self.scalar("mean", y.mean())
        self.histogram("y", y)
        self.check((y > -1e9).all(), [y])
        return self.last(y)


def halve(gradient):
    return gradient * 0.5


class Scaling(Base):
    def __init__(self) -> None:
        super().__init__()
        self.scale = ops.InsertGradientOf(halve)

    def construct(self, x):
        return self.last(self.scale(self.first(x)))


def look(cell, inputs, *output) -> None:
    assert inputs


def double(cell, inputs, output):
    return output * 2


class Hooked(Base):
    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_pre_hook(look)
        self.first.register_forward_hook(lambda cell, inputs, output: None)
        self.first.register_forward_hook(double)
        self.last.register_backward_hook(lambda cell, given, taken: None)


NOTES = {
    Printing: r"4 Prints \(test_mindspore_debugging.py:35, .*\) left out: they change no value",
    Checking: r"1 assert \(test_mindspore_debugging.py:45\) left out: they change no value",
    Recording: r"2 summaries, 1 assert left out: they change no value",
    Scaling: r"what InsertGradientOf does to gradients is lost",
    Hooked: r"2 hooks, 1 backward hook \(test_mindspore_debugging.py:\d+, .*\) left out",
}


@pytest.mark.parametrize("kind", NOTES, ids=lambda kind: kind.__name__)
def test_a_net_under_debugging_is_read_as_without_it(kind: type[Base], tmp_path) -> None:
    net = kind()
    graph = regraft.load(net, [X])
    told = [n for n in graph.origin.notes if "left out" in n or "lost" in n]
    assert len(told) == 1
    assert re.search(NOTES[kind], told[0]), told
    assert not [n for n in graph.origin.notes if "boundaries" in n]
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report.render()
    assert graph.modules.find("first") is not None
    assert len(net.first._forward_hook) == (2 if kind is Hooked else 0)


def test_a_net_without_debugging_has_no_note() -> None:
    assert regraft.load(Base(), [X]).origin.notes == ["captured in evaluation mode"]


def test_prints_and_asserts_are_there_when_the_net_is_compiled_afterwards(capfd) -> None:
    """What the compiler was shown while the net was read is not kept by it."""

    class Told(Base):
        def construct(self, x):
            print(f"told of {x.shape}")
            assert x.shape[0] == 2, "two rows"
            return self.last(self.first(x))

    net = Told()
    net.set_train(False)
    regraft.load(net, [X])
    capfd.readouterr()
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        net(ms.Tensor(X)).asnumpy()
        assert "told of" in capfd.readouterr().out
        with pytest.raises(AssertionError, match="two rows"):
            net(ms.Tensor(np.ones((3, 8), np.float32))).asnumpy()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


class Inner(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(8, 8)

    def construct(self, x):
        print("in", x)
        return self.fc(x) + x


class Kept(nn.Cell):
    """A print in a class with three instances, formatted ones, one of what nothing reads, the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.last = nn.SequentialCell(Inner(), Inner()), Inner()
        self.record = ops.ScalarSummary()

    def construct(self, x):
        y = self.blocks(x)
        print(f"y is {y} of {x.shape[1]}")
        z = ops.relu(y)
        print("mean", z.mean(), 3)
        self.record("largest", z.max())
        z = self.last(z) * x
        print("end", z)
        return z


def test_what_is_told_stays_where_it_was(tmp_path, capfd) -> None:
    """In its class, in its order, with its values; an ONNX file is as without it."""
    net = Kept()
    graph = regraft.load(net, [X], keep_prints=True)
    assert "kept: 6 Print, 1 ScalarSummary" in graph.origin.notes
    rewritten = regraft.rewrite(graph).graph
    regraft.save(rewritten, tmp_path / "net", to="mindspore")
    source = (tmp_path / "net" / "model.py").read_text()
    assert source.count("print(") == 4
    inner = source[source.index("class Inner") : source.index("class Kept")]
    assert re.search(r"def construct\(self, x\):\n +print\(\"in\", x\)\n +return self.fc\(x\) \+ x", inner)
    assert "ops.ScalarSummary()" in source
    capfd.readouterr()
    net(ms.Tensor(X))
    wanted = re.findall(r"[a-z]+|-?\d\.\d{3}", capfd.readouterr().out)
    spec = importlib.util.spec_from_file_location("kept_model", tmp_path / "net" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.build()(ms.Tensor(X))
    assert re.findall(r"[a-z]+|-?\d\.\d{3}", capfd.readouterr().out) == wanted
    assert regraft.verify(graph, tmp_path / "net").passed
    regraft.save(rewritten, tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
    regraft.save(rewritten, tmp_path / "torch", to="torch")
    assert (tmp_path / "torch" / "model.py").read_text().count("print(") == 4
    assert targets.prints_left_out(rewritten, "torch") == "1 ScalarSummary"
    assert targets.prints_left_out(rewritten, "onnx") == "6 Print, 1 ScalarSummary"
    assert targets.prints_left_out(rewritten, "mindspore") == ""
    assert "print" not in str(regraft.rewrite(regraft.load(net, [X])).graph)


def test_nothing_is_kept_in_a_branch(tmp_path) -> None:
    class Choosing(Base):
        def construct(self, x):
            if x.sum() > 0:
                print("positive", x)
                x = x * 2
            return self.last(self.first(x))

    graph = regraft.load(Choosing(), [X], keep_prints=True)
    assert any(note.startswith("1 left out: they are in a branch or a loop") for note in graph.origin.notes)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    assert "print" not in (tmp_path / "net" / "model.py").read_text()
    assert regraft.verify(graph, tmp_path / "net").passed
