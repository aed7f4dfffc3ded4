"""Constructs that run in PyNative and that MindSpore's compiler does not parse as they are."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn

import regraft

X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)


class OtherName(nn.Cell):
    def __init__(this) -> None:
        super().__init__()
        this.fc = nn.Dense(4, 4)

    def construct(this, x):
        return this.fc(x) + 1


class Trying(nn.Cell):
    def construct(self, x):
        try:
            y = x * 2
        except ValueError:
            return x
        else:
            y = y + 1
        finally:
            z = y * 3
        return z


class Failing(nn.Cell):
    def construct(self, x):
        try:
            if x.ndim == 2:
                raise ValueError
            return x * 2
        except ValueError:
            return x


@pytest.mark.parametrize("kind", [OtherName, Trying], ids=lambda kind: kind.__name__)
def test_it_is_read_as_it_runs(kind: type, tmp_path) -> None:
    net = kind()
    before = {name: p.asnumpy().copy() for name, p in net.parameters_and_names()}
    graph = regraft.load(net, [X])
    for out in ("net.onnx", "net"):
        regraft.save(regraft.rewrite(graph).graph, tmp_path / out, to="onnx" if "." in out else "mindspore")
        assert regraft.verify(graph, tmp_path / out).passed
    assert all((p.asnumpy() == before[name]).all() for name, p in net.parameters_and_names())


def test_a_try_that_raised_is_refused() -> None:
    """What the run did is what its handler says, and no graph holds both ways."""
    assert (Failing()(ms.Tensor(X)).asnumpy() == X).all()
    with pytest.raises(regraft.RegraftError, match=r"E104 .*Try"):
        regraft.load(Failing(), [X])


class Different(nn.Cell):
    def construct(self, x):
        return x.argmax()


class Two(nn.Cell):
    def construct(self, x):
        return x.max(1)


@pytest.mark.parametrize("kind", [Different, Two], ids=lambda kind: kind.__name__)
def test_methods_that_compile_to_something_else_are_refused(kind: type) -> None:
    """The compiler gives places along an axis, and one result in place of two."""
    with pytest.raises(
        regraft.RegraftError, match="compiled model differs from the model in PyNative mode"
    ) as caught:
        regraft.load(kind(), [X])
    assert "test_mindspore_plain_source.py" in str(caught.value)
    assert "ops.max(x, 1)" in str(caught.value)


class Seeded(nn.Cell):
    """The compiler moves the generator on, though nothing is dropped."""

    def construct(self, x):
        return mint.nn.functional.dropout(x, 0.3, False) * 2


def test_a_dropout_that_drops_nothing_is_nothing() -> None:
    before = ms.get_rng_state().asnumpy().tolist()
    graph = regraft.load(Seeded(), [X])
    assert [o.op_type for o in graph.operators()] == ["Mul"]
    assert ms.get_rng_state().asnumpy().tolist() == before
