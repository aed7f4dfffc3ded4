"""The text form: `parse` is the exact inverse of `render`."""

import numpy as np
import pytest
from hypothesis import given, settings

from regraft.ir import Builder, Graph, TensorType, TextFormError, parse, render, validate

from .random_graphs import graphs


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_parse_is_the_inverse_of_render(graph):
    validate(graph)
    text = render(graph)
    again = parse(text)
    validate(again)
    assert render(again) == text
    assert [n.name for n in again.input_nodes()] == [n.name for n in graph.input_nodes()]
    assert sorted((p.name, p.declared, str(p.type)) for p in again.parameters()) == sorted(
        (p.name, p.declared, str(p.type)) for p in graph.parameters()
    )
    assert sorted(again.modules.call_names().values()) == sorted(graph.modules.call_names().values())


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_a_copy_has_the_same_text_and_is_independent(graph):
    text = render(graph)
    twin = graph.copy()
    assert render(twin) == text
    twin.outputs.clear()
    for node in twin.parameters():
        node.name = "changed"
    for module in twin.modules:
        module.class_name = "Changed"
    assert render(graph) == text


def test_the_text_depends_on_the_graph_and_not_on_the_order_it_was_built_in():
    def build(first):
        b = Builder(Graph())
        x = b.graph.add_input("x", TensorType("float32", (4,)))
        one, other = (b.op(op, x) for op in (("Exp", "Tanh") if first else ("Tanh", "Exp")))
        if not first:
            one, other = other, one
        b.graph.outputs.append(("y", b.op("Add", one, other)))
        return render(b.graph)

    assert build(first=True) == build(first=False)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e-30, -0.0, 3.4e38])
def test_awkward_numbers_survive(value):
    b = Builder(Graph())
    b.graph.outputs.append(("y", b.constant(np.array([value], np.float32))))
    again = parse(render(b.graph))
    (constant,) = again.nodes()
    np.testing.assert_array_equal(constant.data.numpy(), np.array([value], np.float32))


def test_nan_survives():
    b = Builder(Graph())
    b.graph.outputs.append(("y", b.constant(np.array(np.nan, np.float32))))
    assert "nan" in render(b.graph)
    assert render(parse(render(b.graph))) == render(b.graph)


def test_long_constants_become_digests_and_parameters_never_show_data():
    b = Builder(Graph())
    array = np.arange(100, dtype=np.float32)
    b.graph.outputs.append(("y", b.constant(array)))
    text = render(b.graph)
    assert "99" not in text
    again = parse(text)
    assert render(again) == text
    with pytest.raises(ValueError, match="no data"):
        again.nodes()[0].data.numpy()
    b = Builder(Graph())
    b.graph.outputs.append(("y", b.constant(array + 1)))
    assert render(b.graph) != text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph main {", "the end of the text"),
        ("graf main {\n}", "expected 'graph'"),
        ("graph main {\n}\n}", "end of the text"),
        ('graph main {\n  return "y" = %x\n}', "line 2.*|defined above"),
        ('graph main {\n  %x = input "x" : f32[4]\n  %x = input "z" : f32[4]\n}', "new name"),
        ('graph main {\n  %x = input "x" : q7[4]\n}', "expected a type"),
        ('graph main {\n  %x = input "x" : f32[4] extra\n}', "end of the line"),
        ('graph main {\n  %x = input "x" : f32[4]\n  %y = Relu(%x) : f32[4] @ "m#1"\n}', "call of a module"),
        ('graph main {\n  module "" Net\n  module "a" = "b"\n}', "path of a module"),
        ('graph main {\n  module "" Net\n  module "a.b" Conv\n}', "expected a module at `a`"),
        ('graph main {\n  module "" Net {w=%w}\n}', "not defined"),
        ('graph main {\n  %w = param "w" : f32[2] {colour=3}\n}', "fact about a parameter"),
        ('graph main {\n  %w = param "w" : f32[2] {absorbed=3}\n}', "expected '\\['"),
        ('graph main {\n  %w = param "w" : f32[2] {absorbed=[3]}\n}', "expected a string"),
        ('graph main {\n  %w = param "w" : f32[2] {init=uniform(low=[1])}\n}', "a number or a text"),
        ("graph main {\n  %x = ~\n}", "cannot read"),
    ],
)
def test_a_text_that_is_not_one_is_refused_with_its_line(text, message):
    with pytest.raises(TextFormError, match=message) as caught:
        parse(text)
    assert caught.value.code == "E401"


def test_updates_keep_their_order_whatever_their_names():
    lines = [f'  %p{i} = param "p{i}" : f32[2]\n' for i in range(12)]
    adds = [f"  %{i} = Add(%x, %p{i}) : f32[2]\n" for i in range(12)]
    updates = [f"  update %p{i} = %{i}\n" for i in range(11, 0, -1)]
    text = "graph main {\n" + '  %x = input "x" : f32[2]\n' + "".join([*lines, *adds])
    graph = parse(text + '  return "y" = %0\n' + "".join(updates) + "}\n")
    once = render(graph)
    assert render(parse(once)) == once
    names = [graph.parameter(key).name for key in graph.updates]
    assert names == [f"p{i}" for i in range(11, 0, -1)]
