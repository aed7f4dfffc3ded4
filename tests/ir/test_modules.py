"""The module tree: registrations, paths, calls and the parameters under them."""

import numpy as np
import pytest

from regraft.ir import Graph, ModuleTree, Parameter, TensorData, Value


def parameter(graph, name="w"):
    return graph.add_parameter(Parameter(name, name, TensorData.of(np.zeros(2, np.float32)))).node


def test_a_module_registered_twice_has_two_paths_the_one_first_called_in_front():
    tree = ModuleTree()
    root = tree.add("Net")
    base = tree.add("ResNet", root, "base")
    conv = tree.add("Conv2d", base, "conv1")
    layer = tree.add("Sequential", root, "layer0", container="sequential")
    tree.register(layer, "0", conv)
    assert tree.paths(conv) == ("base.conv1", "layer0.0")
    call = tree.add_call(layer, tree.add_call(root))
    tree.add_call(conv, call)
    assert tree.paths(conv) == ("layer0.0", "base.conv1")
    assert tree.find("base.conv1") is tree.find("layer0.0") is tree.module(conv)


def test_a_child_of_a_container_that_is_not_called_has_the_containers_path():
    tree = ModuleTree()
    root = tree.add("Net")
    blocks = tree.add("ModuleList", root, "blocks", container="list")
    block = tree.add("Block", blocks, "0")
    tree.add_call(block, tree.add_call(root))
    assert tree.path(block) == "blocks.0"
    assert tree.call_name(1) == "blocks.0#1"


def test_of_two_names_in_one_parent_the_first_counts():
    tree = ModuleTree()
    root = tree.add("Net")
    act = tree.add("ReLU", root, "a")
    tree.register(root, "b", act)
    tree.add_call(act, tree.add_call(root))
    assert tree.paths(act) == ("a", "b")


def test_names_with_a_dot_are_refused():
    tree = ModuleTree()
    root = tree.add("Net")
    with pytest.raises(ValueError, match="dot"):
        tree.add("Conv2d", root, "a.b")


def test_a_cycle_of_registrations_has_finite_paths():
    tree = ModuleTree()
    root = tree.add("Net")
    child = tree.add("Block", root, "child")
    tree.register(child, "parent", root)
    assert tree.paths(child) == ("child",)
    assert len(list(tree)) == 2


def test_prune_removes_what_no_path_reaches_with_its_calls():
    tree = ModuleTree()
    root = tree.add("Net")
    aux = tree.add("Aux", root, "aux")
    tree.add("Linear", aux, "fc")
    tree.add_call(aux, tree.add_call(root))
    tree.unregister(root, "aux")
    assert [module.class_name for module in tree.prune()] == ["Aux", "Linear"]
    assert [call.module for call in tree.calls()] == [root]


def test_the_path_of_a_tied_parameter_is_that_of_a_module_that_runs():
    graph = Graph()
    tree = graph.modules
    root = tree.add("Net")
    unused, used = tree.add("Linear", root, "unused"), tree.add("Linear", root, "used")
    w = parameter(graph)
    tree.module(unused).parameters["weight"] = tree.module(used).parameters["weight"] = w
    assert graph.parameter_paths()[w] == ["unused.weight", "used.weight"]
    tree.add_call(used, tree.add_call(root))
    assert graph.parameter_paths()[w] == ["used.weight", "unused.weight"]


def test_paths_through_an_alias_come_after_canonical_ones():
    graph = Graph()
    tree = graph.modules
    root = tree.add("Net")
    a = tree.add("Block", root, "a")
    tree.register(root, "b", a)
    w = parameter(graph)
    tree.module(a).parameters["w"] = w
    assert graph.parameter_paths() == {w: ["a.w", "b.w"]}


def test_tying_moves_uses_and_module_paths_and_remembers_the_declared_name():
    graph = Graph()
    root = graph.modules.add("Net")
    kept, gone = parameter(graph, "kept"), parameter(graph, "gone")
    graph.modules.module(root).parameters.update(a=kept, b=gone)
    graph.outputs.append(("y", Value(gone)))
    graph.replace_parameter(gone, kept)
    assert graph.outputs == [("y", Value(kept))]
    assert graph.parameter_paths() == {kept: ["a", "b"]}
    assert graph.parameter(kept).absorbed == ("gone",)
    assert gone not in graph


def test_the_calls_of_a_module_are_those_it_has_now():
    tree = ModuleTree()
    root = tree.add("Net")
    a, b = (tree.add("Layer", root, name) for name in "ab")
    outer = tree.add_call(root)
    first, second = tree.add_call(a, outer), tree.add_call(b, outer)
    assert [call.key for call in tree.calls(a)] == [first]
    tree.replace_call(second, module=a, parent=outer)
    assert [[call.key for call in tree.calls(module)] for module in (a, b)] == [[first, second], []]
    copy = tree.copy()
    tree.remove_call(first)
    assert [call.key for call in tree.calls(a)] == [second]
    assert [call.key for call in copy.calls(a)] == [first, second]
    tree.unregister(root, "a")
    tree.prune()
    assert tree.calls(a) == []
