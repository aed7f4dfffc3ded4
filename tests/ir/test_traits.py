"""What operators are: ONNX's are classified, every one on purpose, and as ONNX itself tells where it does."""

import numpy as np
import onnx
import onnx.reference
import pytest

from regraft.ir import COMPOSITES, OPSET, Builder, Graph, InvalidGraphError, Operator, TensorType, traits_of
from regraft.ir.traits import _ONNX, CLASSIFIED, NO_TRAITS


def vocabulary():
    """The schemas of the default domain in our opset, without what ONNX has taken back."""
    names = {s.name for s in onnx.defs.get_all_schemas_with_history() if not s.domain}
    found = []
    for name in sorted(names):
        try:
            schema = onnx.defs.get_schema(name, OPSET, "")
        except onnx.defs.SchemaError:
            continue  # newer than our opset
        if not schema.deprecated:
            found.append(schema)
    return found


def test_every_operator_of_onnx_has_one_row():
    listed = [name for _, names in _ONNX for name in names.split()]
    assert sorted(listed) == sorted(set(listed))
    assert sorted(listed) == [schema.name for schema in vocabulary()]


def test_rows_are_sorted_and_said_once():
    for _, names in _ONNX:
        assert names.split() == sorted(names.split())
    said = [traits for traits, _ in _ONNX if traits != NO_TRAITS]
    assert len(said) == len(set(said))


def test_broadcasting_is_what_the_specification_says():
    said = {s.name for s in vocabulary() if "supports **multidirectional" in s.doc}
    unlisted = {"StringConcat"}  # of texts, in a row of its own kind
    spelled_otherwise = {"BitShift"}  # "because this operator supports Numpy-style broadcasting"
    assert {n for n, t in CLASSIFIED.items() if t.broadcasting} == (said - unlisted) | spelled_otherwise


def test_random_is_what_the_schemas_say():
    if not hasattr(onnx.defs.OpSchema, "NodeDeterminism"):
        pytest.skip("this release of onnx does not tell")
    kinds = onnx.defs.OpSchema.NodeDeterminism
    said = {s.name for s in vocabulary() if s.node_determinism == kinds.NonDeterministic}
    said -= {name for name in said if traits_of(name).control_flow}  # as random as what they run
    said -= {"AffineGrid"}  # its function body holds an If
    assert {name for name, traits in CLASSIFIED.items() if traits.random} == said


def test_reductions_and_normalisations_are_all_that_are_called_so():
    for name, traits in CLASSIFIED.items():
        assert traits.reduction == (name.startswith("Reduce") or name in ("ArgMax", "ArgMin")), name
        assert traits.normalisation == (name.endswith("Normalization") or name == "LRN"), name
        assert traits.pool == ("Pool" in name or name == "RoiAlign"), name


def test_elementwise_operators_keep_the_shape():
    """ONNX's own inference gives (2, 3) for operands of (2, 3), or the operator takes other types."""
    for name, traits in CLASSIFIED.items():
        schema = onnx.defs.get_schema(name, OPSET, "")
        if not traits.elementwise:
            continue
        needed = max(schema.min_input, 1)
        graph = Graph()
        boolean = {"And", "Or", "Xor", "Not", "Where"}
        dtype = "bool" if name in boolean else "int64" if name.startswith("Bit") else "float32"
        operands = [graph.add_input(f"x{i}", TensorType(dtype, (2, 3))) for i in range(needed)]
        attributes = {"Cast": {"to": onnx.TensorProto.INT32}, "BitShift": {"direction": "LEFT"}}.get(name, {})
        if name == "BitShift":
            operands = [graph.add_input(f"u{i}", TensorType("uint8", (2, 3))) for i in range(2)]
        y = Builder(graph).op(name, *operands, **attributes)
        assert graph.type_of(y).shape == (2, 3), name


def test_control_flow_and_windows_are_derived():
    assert {n for n in CLASSIFIED if traits_of(n).control_flow} == {"If", "Loop", "Scan", "SequenceMap"}
    windowed = {n for n in CLASSIFIED if traits_of(n).windowed}
    assert windowed >= {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"}
    assert all(traits_of(n).pool or traits_of(n).heavy for n in windowed)


def test_an_operator_that_nobody_knows_is_refused():
    with pytest.raises(InvalidGraphError, match="Nothing"):
        traits_of("Nothing")
    with pytest.raises(InvalidGraphError, match="Nothing"):
        traits_of("Nothing", "regraft")


def test_composites_that_drop_are_random_only_while_they_drop():
    attention = Operator("ScaledDotProductAttention", "regraft")
    assert attention.traits.drops_inside
    assert not attention.is_random
    attention.attributes["dropout"] = 0.1
    assert attention.is_random
    assert not attention.is_pure


def test_a_composite_of_a_layer_bears_the_traits_of_onnx_own():
    for name in ("LSTM", "GRU", "RNN"):
        assert traits_of(name).recurrent
        assert traits_of(name, "regraft").recurrent
    assert traits_of("Linear", "regraft").heavy == traits_of("Gemm").heavy
    assert traits_of("Swish", "regraft").activation == traits_of("Gelu").activation
    assert {n for n in COMPOSITES if traits_of(n, "regraft").dropout} == {"FeatureDropout"}


def test_what_drops_trains_differently():
    for name, domain in [*((n, "") for n in CLASSIFIED), *((n, "regraft") for n in COMPOSITES)]:
        traits = traits_of(name, domain)
        if traits.dropout or traits.drops_inside:
            assert traits.trains_differently, name
        if traits.dropout:
            assert traits.random, name


def test_bends_are_where_slope_or_curvature_jump():
    """By ONNX's own reference evaluator, on three points either side."""
    for name, traits in CLASSIFIED.items():
        for at in traits.bends:
            x = at + 1e-2 * np.array([-3, -2, -1, 1, 2, 3])
            node = onnx.helper.make_node(name, ["x", "s"] if name == "PRelu" else ["x"], ["y"])
            info = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [6])]
            if name == "PRelu":
                info.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.DOUBLE, [1]))
            out = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, [6])]
            model = onnx.helper.make_model(
                onnx.helper.make_graph([node], "g", info, out),
                opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            )
            feeds = {"x": x, **({"s": np.array([0.25])} if name == "PRelu" else {})}
            y = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
            below, above = np.diff(y[:3]), np.diff(y[3:])
            slopes, curvatures = (below[-1], above[0]), (below[1] - below[0], above[1] - above[0])
            jumps = [abs(a - b) for a, b in (slopes, curvatures)]
            assert jumps[0] > 1e-3 or jumps[1] > 5e-5 or y[3] - y[2] > 1, name
