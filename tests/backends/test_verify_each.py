"""verify_each: a graph is validated after every pass of a backend, and the pass at fault is named."""

import pytest

import regraft
from regraft.backends import TARGETS, passes_of
from regraft.backends.mindspore_source.operators import DOMAIN, TABLE
from regraft.backends.source.operators import TABLE as SOURCE
from regraft.ir import Builder, Graph, InvalidGraphError, TensorType, validate
from regraft.ir.declarations import find_declaration
from regraft.ir.validation import verifies_each, verify_each, verifying_each


@pytest.fixture
def unverified():
    """What holds for users, who ask for it."""
    verify_each(on=False)
    yield
    verify_each(on=True)


def small():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", ("N", 4)))
    b.graph.outputs.append(("y", b.op("Tanh", x)))
    return b.graph


def spoilt(monkeypatch, target):
    """A pass of a target that leaves an operator of another type than its operands give."""

    def spoil(_self, graph):
        graph.operators()[0].types = [TensorType("int64", (7,))]
        return []

    first = passes_of(target)[0]
    monkeypatch.setattr(type(first), "run", spoil)
    return first.name


@pytest.mark.parametrize("target", TARGETS)
def test_the_pass_that_broke_the_graph_is_named(monkeypatch, tmp_path, unverified, target):
    name = spoilt(monkeypatch, target)
    path = tmp_path / ("a.onnx" if target == "onnx" else "a")
    with pytest.raises(InvalidGraphError, match=f"after the pass `{name}`: expected output 0 to be") as e:
        regraft.save(small(), path, target, verify_each=True)
    assert "Tanh" in e.value.place
    assert not path.exists()


def test_it_is_asked_for_and_holds_as_long_as_the_call(monkeypatch, tmp_path, unverified):
    spoilt(monkeypatch, "mxnet")
    regraft.save(small(), tmp_path / "a", "mxnet")
    with verifying_each():
        assert verifies_each()
        with verifying_each(False):  # a call that does not ask leaves it on
            assert verifies_each()
    assert not verifies_each()


def test_the_operators_of_mindspore_are_declared_and_typed():
    assert {"Sigmoid", "Tanh"} <= set(TABLE)
    assert {"If", "While", "Entry", "Argument", "PRelu", "SizeTensor", "Index"} == set(SOURCE)
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", ("N", 4)))
    s = b.graph.add_input("s", TensorType("float32", (4,)))
    for name in ("Tanh", "Sigmoid"):
        assert str(b.type_of(b.op(f"{DOMAIN}.{name}", x))) == "f32[N,4]"
    assert str(b.type_of(b.op("regraft.source.PRelu", x, s))) == "f32[N,4]"
    validate(b.graph)
    with pytest.raises(InvalidGraphError, match="expected 4 slopes of `PRelu`, got 3"):
        b.op("regraft.source.PRelu", x, b.graph.add_input("t", TensorType("float32", (3,))))


def test_a_name_is_declared_in_one_domain():
    with pytest.raises(InvalidGraphError, match=r"expected an operator of `regraft\.mindspore`"):
        find_declaration("Linear", DOMAIN)
    with pytest.raises(InvalidGraphError, match="expected the domain"):
        find_declaration("Linear", "regraft.other")
