"""Random graphs with modules, aliases, calls, ties, optional operands and branches, for property tests."""

import numpy as np
from hypothesis import strategies as st

from regraft.ir import Builder, Graph, Initializer, Operator, Parameter, TensorData, TensorType

MATRIX = TensorType("float32", ("N", 4))
NAMES = st.text(alphabet='abcXYZ_0 é"\\.%', min_size=1, max_size=6)
INITIALIZERS = [
    None,
    Initializer.of("zeros"),
    Initializer.of("normal", mean=0.0, std=0.02),
    Initializer.of("he_uniform", a=5**0.5, mode="fan_in"),
]


@st.composite
def graphs(draw, nested=True):
    """A valid graph whose values are all (N, 4) matrices; `nested` allows branches."""
    graph = Graph(draw(st.sampled_from(["main", "net"])))
    calls = _modules(draw, graph)
    b = Builder(graph)
    values = [
        graph.add_input(name, MATRIX) for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    ]
    for _ in range(draw(st.integers(1, 8))):
        call = draw(st.sampled_from([None, *calls]))
        with b.inside(call):
            values.append(_operator(draw, b, values, call, nested))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    graph.outputs = [(name, draw(st.sampled_from(values))) for name in names]
    for parameter in graph.parameters():
        if parameter.type.rank == 1 and draw(st.integers(0, 9)) == 0:
            row = b.op("ReduceMax", draw(st.sampled_from(values)), b.constant([0]), keepdims=0)
            graph.updates[parameter.key] = row
    return graph


def _modules(draw, graph):
    """A module tree with aliases, and calls of some of its modules in a plausible order."""
    tree = graph.modules
    if not draw(st.booleans()):
        return []
    keys, parents = [tree.add("Net")], {}
    for number in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from(keys))
        container = draw(st.sampled_from([None, None, "sequential", "list"]))
        keys.append(
            tree.add(draw(st.sampled_from(["Conv2d", "Block"])), parent, f"m{number}", container=container)
        )
        parents[keys[-1]] = parent
    for number in range(draw(st.integers(0, 2)) if len(keys) > 1 else 0):  # aliases, never of an ancestor
        child = draw(st.sampled_from(keys[1:]))
        parent = draw(st.sampled_from([k for k in keys if k < child]))
        tree.register(parent, f"alias{number}", child)
    made = {}
    calls = [tree.add_call(0)]
    made[0] = [calls[0]]
    for key in keys[1:]:  # a parent's calls come before its children's
        for parent in made.get(parents[key], []):
            for _ in range(draw(st.integers(0, 2))):
                calls.append(tree.add_call(key, parent))
                made.setdefault(key, []).append(calls[-1])
    return calls


def _operator(draw, b, values, call, nested):
    kinds = ["unary", "binary", "linear", "clip", "scale", "split", *(["if"] if nested else [])]
    kind = draw(st.sampled_from(kinds))
    x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
    if kind == "unary":
        return b.op(draw(st.sampled_from(["Relu", "Identity", "Softmax"])), x)
    if kind == "binary":
        return b.op(draw(st.sampled_from(["Add", "Mul"])), x, y)
    if kind == "clip":
        return b.op("Clip", x, None, b.constant(draw(st.floats(-3, 3, width=32))))
    if kind == "split":
        parts = b.ops("Split", x, outputs=2, axis=1, num_outputs=2)
        return b.op("Concat", *reversed(parts), axis=1)
    if kind == "if":
        return _branch(draw, b, x, y)
    weight = _parameter(draw, b.graph, call, (4, 4) if kind == "linear" else (4,))
    return b.op("regraft.Linear", x, weight) if kind == "linear" else b.op("Mul", x, weight)


def _parameter(draw, graph, call, shape):
    array = np.zeros(shape, np.float32)
    parameter = Parameter(
        draw(NAMES),
        draw(NAMES),
        TensorData.of(array),
        trainable=draw(st.booleans()),
        is_buffer=draw(st.booleans()),
        initializer=draw(st.sampled_from(INITIALIZERS)),
        role=draw(st.sampled_from(["", "weight"])),
        absorbed=tuple(draw(st.lists(NAMES, max_size=1))),
    )
    value = graph.add_parameter(parameter)
    modules = list(graph.modules)
    for number in range(draw(st.integers(0, 2)) if modules else 0):
        draw(st.sampled_from(modules)).parameters[f"w{value.node}_{number}"] = value.node
    return value


def _branch(draw, b, x, y):
    branches = {}
    for name in ("then_branch", "else_branch"):
        body = Graph(name[:4], b.graph.modules)
        inner = Builder(body, call=b.call)
        first, second = body.add_capture(MATRIX), body.add_capture(MATRIX)
        value = inner.op(draw(st.sampled_from(["Add", "Sub"])), first, second)
        if draw(st.booleans()):
            value = inner.op(
                "Add",
                value,
                inner.constant(draw(st.lists(st.integers(-3, 3), min_size=4, max_size=4)), "float32"),
            )
        body.outputs.append(("out", value))
        branches[name] = body
    operator = Operator("If", "", dict(branches), [MATRIX], call=b.call)
    condition = b.constant(True, "bool")
    return b.graph.add_operator(operator, [condition], [x, y])[0]
