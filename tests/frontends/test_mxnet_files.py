"""Reading symbol JSON and ``.params`` files: every generation, and what is not what it says it is."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import regraft
from regraft.formats.params_file import read_params
from regraft.frontends.mxnet_symbol import read, read_tree
from regraft.frontends.mxnet_symbol.attributes import TextAttributes, literal
from regraft.frontends.mxnet_symbol.files_beside import find_params
from regraft.frontends.mxnet_symbol.reader import Symbol, parse_symbol, read_symbol
from regraft.frontends.options import LoadOptions
from regraft.ir import ModelError, UnsupportedError

from ..corpora.mxnet.cases import ROOT, cases, save_params

LEGACY = sorted(c.name for c in cases("legacy").values())


def canonical(symbol: Symbol) -> list[tuple]:
    """What a symbol says, without node numbers: (op, name, attributes, names and outputs of the inputs)."""
    names = {n.index: n.name for n in symbol.nodes}
    rows = [(n.op, n.name, dict(n.attributes), [(names[i], o) for i, o in n.inputs]) for n in symbol.nodes]
    return sorted(rows, key=lambda row: row[1])


@pytest.mark.parametrize("name", LEGACY)
def test_old_files_are_upgraded_as_mxnet_does(name: str) -> None:
    old = read_symbol(ROOT / "legacy" / f"{name}-symbol.json")
    new = read_symbol(ROOT / "legacy" / f"{name}-upgraded.json")
    assert canonical(old) == canonical(new)
    assert [o for _, o in old.heads] == [o for _, o in new.heads]


def test_multipliers_move_to_the_variables() -> None:
    old = read_symbol(ROOT / "legacy" / "hidden_keys_v080-symbol.json")
    new = read_symbol(ROOT / "legacy" / "hidden_keys_v080-upgraded.json")
    for keys in ("__lr_mult__", "__wd_mult__", "__ctx_group__"):
        assert {n.name: n.hidden.get(keys) for n in old.nodes if n.is_variable and n.name != "data"} == {
            n.name: n.hidden.get(keys) for n in new.nodes if n.is_variable and n.name != "data"
        }


def symbol(*nodes: dict, heads: object = None) -> dict:
    return {"nodes": list(nodes), "heads": [[len(nodes) - 1, 0, 0]] if heads is None else heads}


VARIABLE = {"op": "null", "name": "data", "inputs": []}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "expected JSON"),
        ('{"nodes": [', "byte 11"),
        ('{"nodes": "a\n"}', "expected JSON: invalid control character - at "),
        ('{"nodes": "a', "expected JSON: unterminated string - at "),
        ("[]", "an object with a list of `nodes`"),
        ({"nodes": {}}, "list of `nodes`"),
        ({"nodes": [], "heads": []}, "at least one node"),
        (symbol(VARIABLE, heads=[]), "`heads`"),
        (symbol(VARIABLE, heads=[[7, 0, 0]]), "below 1, got 7"),
        (symbol(VARIABLE, heads=[[-1, 0, 0]]), "got -1"),
        (symbol(VARIABLE, heads=[["0", 0, 0]]), ", head 0"),
        (symbol(7), "node 0"),
        (symbol({"op": 3, "name": "x", "inputs": []}), "as `op` and `name`"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": [[9, 0, 0]]}), ", node 1 `r`"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": [[0, 10**9, 0]]}), "output number"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": "data"}), "list of `inputs`"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": [[0]]}), "[node, output]"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": [[True, 0]]}), "[node, output]"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "attrs": [1], "inputs": [[0, 0]]}), "`attrs`"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "attrs": {"a": 1}, "inputs": [[0, 0]]}), "`attrs`"),
        (symbol({"op": "null", "name": "v", "inputs": [[0, 0, 0]]}), "variable without inputs"),
        (symbol(VARIABLE, {"op": "relu", "name": "r", "inputs": [[1, 0, 0]]}), "cycle through node 1 `r`"),
        (
            symbol(
                {"op": "relu", "name": "a", "inputs": [[1, 0, 0]]},
                {"op": "relu", "name": "b", "inputs": [[0, 0, 0]]},
            ),
            "cycle",
        ),
        ({**symbol(VARIABLE), "attrs": {"mxnet_version": "x"}}, "mxnet_version"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_hostile_symbols_are_refused_with_a_place(document: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x-symbol.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(ModelError) as caught:
        read_symbol(path)
    assert caught.value.code == "E101"
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_and_binary_symbols(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="E101 no such file"):
        read_symbol(tmp_path / "nothing-symbol.json")
    (tmp_path / "x-symbol.json").write_bytes(b'{"nodes": "\xff"}')
    with pytest.raises(ModelError, match="byte 11"):
        read_symbol(tmp_path / "x-symbol.json")


def test_nodes_may_come_in_any_order() -> None:
    text = json.dumps(symbol({"op": "relu", "name": "r", "inputs": [[1, 0, 0]]}, VARIABLE, heads=[[0, 0, 0]]))
    assert [n.name for n in parse_symbol(text).nodes] == ["data", "r"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(3, 3)", (3, 3)),
        ("[1, 2]", [1, 2]),
        ("(2,)", (2,)),
        ("1e-05", 1e-05),
        ("None", None),
        ("(None, 2)", (None, 2)),
        ("True", True),
        ("true", True),
        ("(2L, 3L)", (2, 3)),
        ("-inf", float("-inf")),
        ("()", ()),
    ],
)
def test_attributes_are_literals(text: str, value: object) -> None:
    assert literal(text) == value


@pytest.mark.parametrize("text", ["__import__('os')", "a", "(" * 5000, "1" * 20_000, "3 + x", "print()", ""])
def test_attributes_are_nothing_else(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        literal(text)
    attributes = TextAttributes({"kernel": text}, "Convolution", "node 2 `c`")
    with pytest.raises(ModelError, match="`kernel` of `Convolution`"):
        attributes.ints("kernel")


# -- .params -------------------------------------------------------------------------------------------

FILES = json.loads((ROOT / "params.json").read_text())


def expected_array(record: dict) -> np.ndarray:
    if "values" in record:
        values = [float(v) if isinstance(v, str) else v for v in record["values"]]
        return np.array(values, record["dtype"]).reshape(record["shape"])
    dense = np.zeros(record["shape"], record["dtype"])
    if record["stype"] == "row_sparse":
        rows = np.array(record["indices"], int)
        dense[rows] = np.array(record["data"], record["dtype"]).reshape(len(rows), *dense.shape[1:])
    else:
        for row in range(len(dense)):
            for at in range(record["indptr"][row], record["indptr"][row + 1]):
                dense[row, record["indices"][at]] = record["data"][at]
    return dense


@pytest.mark.parametrize("record", FILES, ids=[r["id"] for r in FILES])
def test_params_files(record: dict) -> None:
    path = ROOT / "params" / f"{record['id']}.params"
    if record["expect"] == "error":
        with pytest.raises(ModelError, match="byte") as caught:
            read_params(path)
        assert caught.value.code == "E101"
        return
    found = read_params(path)
    arrays = record["expect"]["arrays"]
    assert [a.name for a in found] == [a.get("name", "") for a in arrays]
    for array, wanted in zip(found, arrays, strict=True):
        want = expected_array(wanted)
        assert (array.data.dtype, array.data.shape) == (wanted["dtype"], tuple(wanted["shape"]))
        np.testing.assert_array_equal(array.data.numpy(), want)
        assert array.data.numpy().dtype == want.dtype


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.params"
    save_params(
        path, {"arg:w": np.arange(6, dtype=np.float32).reshape(2, 3), "aux:m": np.ones(2, np.float32)}
    )
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="byte"):
            read_params(path)


def test_every_damaged_count_is_refused_or_harmless(tmp_path: Path) -> None:
    """Any eight bytes may be garbage: an error of ours, or a file that reads, and never much memory."""
    path = tmp_path / "x.params"
    save_params(path, {"arg:w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole) - 8, 4):
        for garbage in (2**64 - 1, 2**62, 2**31):
            path.write_bytes(whole[:at] + struct.pack("<Q", garbage) + whole[at + 8 :])
            try:
                for array in read_params(path):
                    assert array.data.nbytes <= len(whole)
            except ModelError:
                refused += 1
    assert refused > 20


def test_arrays_are_slices_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.params"
    save_params(path, {"w": np.arange(6, dtype=np.float32)})
    (array,) = read_params(path)
    first, second = array.data.numpy(), array.data.numpy()
    assert not first.flags.owndata
    assert np.shares_memory(first, second)


def test_highest_epoch_is_found_by_prefix(tmp_path: Path) -> None:
    for name in (
        "net-0000.params",
        "net-0012.params",
        "net-0003.params",
        "net-x.params",
        "other-0099.params",
    ):
        (tmp_path / name).write_bytes(b"")
    assert find_params(tmp_path / "net-symbol.json") == tmp_path / "net-0012.params"
    assert find_params(tmp_path / "other.json") == tmp_path / "other-0099.params"
    assert find_params(tmp_path / "third-symbol.json") is None


# -- what the user got wrong ---------------------------------------------------------------------------


@pytest.fixture
def lenet(tmp_path: Path) -> Path:
    return cases("models")["net/lenet"].write(tmp_path)


def image(*shape: int) -> list[tuple[str, np.ndarray | None]]:
    return [("", np.zeros(shape, np.float32))]


def test_missing_input_shape_asks_for_it(lenet: Path) -> None:
    with pytest.raises(ModelError, match=r'E103.*\n?.*inputs={"data": ') as caught:
        read(lenet, [], LoadOptions())
    assert "--input data=" in caught.value.hint


def test_wrong_input_shape_names_the_layer(lenet: Path) -> None:
    with pytest.raises(ModelError, match="E103") as caught:
        read(lenet, image(2, 1, 20, 20), LoadOptions())
    assert "weight" in str(caught.value)
    with pytest.raises(ModelError, match="E103"):
        read(lenet, [("picture", np.zeros((2, 1, 28, 28), np.float32))], LoadOptions())
    with pytest.raises(ModelError, match="at most 1 input"):
        read(lenet, image(2, 1, 28, 28) * 2, LoadOptions())


def test_shapes_are_inferred_without_parameters(lenet: Path, tmp_path: Path) -> None:
    stored = {p.declared: p.type for p in read(lenet, image(2, 1, 28, 28), LoadOptions()).parameters()}
    find_params(lenet).unlink()
    graph = read(lenet, image(2, 1, 28, 28), LoadOptions())
    assert {p.declared: p.type for p in graph.parameters()} == stored
    assert any("no values" in note for note in graph.origin.notes)
    with pytest.raises(ModelError, match=r"E101 expected the values of 8 parameters") as caught:
        regraft.save(graph, tmp_path / "lenet.onnx")
    assert "`params`" in str(caught.value)
    assert not (tmp_path / "lenet.onnx").exists()
    assert len(read_tree(lenet, LoadOptions()).parameters()) == 8  # names need no values


@pytest.mark.parametrize(
    ("op", "attributes", "data", "wanted"),  # as MXNet 1.9.1's `infer_shape` has them
    [
        (
            "_contrib_DeformableConvolution",
            {"kernel": "(3, 3)", "num_filter": "8", "num_group": "2"},
            {"data": (1, 4, 6, 6), "offset": (1, 18, 4, 4)},
            {"weight": (8, 2, 3, 3), "bias": (8,)},
        ),
        (
            "_contrib_ModulatedDeformableConvolution",
            {"kernel": "(3, 3)", "num_filter": "8", "no_bias": "True"},
            {"data": (1, 4, 6, 6), "offset": (1, 18, 4, 4), "mask": (1, 9, 4, 4)},
            {"weight": (8, 4, 3, 3)},
        ),
        (
            "UpSampling",
            {"num_args": "2", "num_filter": "4", "sample_type": "bilinear", "scale": "3"},
            {"data": (1, 4, 6, 6)},
            {"weight": (4, 1, 5, 5)},
        ),
        ("IdentityAttachKLSparseReg", {}, {"data": (2, 5)}, {"moving_avg": (5,)}),
    ],
)
def test_shapes_of_layers_are_inferred_from_their_data(
    op: str,
    attributes: dict[str, str],
    data: dict[str, tuple[int, ...]],
    wanted: dict[str, tuple[int, ...]],
    tmp_path: Path,
) -> None:
    names = [*data, *(f"layer_{name}" for name in wanted)]
    variables = [{"op": "null", "name": name, "inputs": []} for name in names]
    inputs = [[number, 0, 0] for number in range(len(names))]
    layer = {"op": op, "name": "layer", "attrs": attributes, "inputs": inputs}
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps(symbol(*variables, layer)))
    given = [(name, np.zeros(shape, np.float32)) for name, shape in data.items()]
    graph = read(path, given, LoadOptions())
    found = {p.declared: (p.data.shape, p.is_buffer) for p in graph.parameters()}
    assert found == {f"layer_{name}": (shape, name == "moving_avg") for name, shape in wanted.items()}


def test_parameters_of_another_model(lenet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.params"
    save_params(other, {"arg:unrelated": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match="weight") as caught:
        read(lenet, image(2, 1, 28, 28), LoadOptions(params=other))
    assert str(other) in str(caught.value)


def test_unknown_operators_all_in_one_error(tmp_path: Path) -> None:
    path = tmp_path / "x-symbol.json"
    nodes = [VARIABLE]
    for i, op in enumerate(["Nonsense", "relu", "Gibberish", "Nonsense"]):
        nodes.append({"op": op, "name": f"n{i}", "inputs": [[i, 0, 0]]})
    path.write_text(json.dumps(symbol(*nodes)))
    with pytest.raises(UnsupportedError, match="E201") as caught:
        read(path, image(1, 2), LoadOptions())
    assert [(m.operator, len(m.places)) for m in caught.value.missing] == [("Nonsense", 2), ("Gibberish", 1)]


def test_a_symbol_that_ends_before_what_is_refused_is_read(tmp_path: Path) -> None:
    """As the error's hint says."""
    path = tmp_path / "x-symbol.json"
    nodes = [VARIABLE, {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}]
    whole = symbol(*nodes, {"op": "Custom", "name": "c", "inputs": [[1, 0, 0]]})
    path.write_text(json.dumps(whole))
    with pytest.raises(UnsupportedError, match='set "heads" in the JSON') as caught:
        read(path, image(1, 2), LoadOptions())
    assert "its code is its author's" in str(caught.value)
    path.write_text(json.dumps({**whole, "heads": [[1, 0, 0]]}))
    assert [node.op_type for node in read(path, image(1, 2), LoadOptions()).operators()] == ["Relu"]


def test_unread_attribute_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x-symbol.json"
    path.write_text(
        json.dumps(
            symbol(VARIABLE, {"op": "relu", "name": "r", "attrs": {"odd": "1"}, "inputs": [[0, 0, 0]]})
        )
    )
    with pytest.raises(UnsupportedError, match=r"E202.*`odd`='1'"):
        read(path, image(1, 2), LoadOptions())


@pytest.mark.parametrize("op", ["FullyConnected", "Convolution", "Deconvolution"])
def test_an_input_too_many_is_refused(op: str, tmp_path: Path) -> None:
    """MXNet runs no layer that says `no_bias` and is given one."""
    path = tmp_path / "x-symbol.json"
    attributes = {"num_hidden": "3", "num_filter": "3", "kernel": "(1, 1)", "no_bias": "True"}
    del attributes["kernel" if op == "FullyConnected" else "num_hidden"]
    further = [{"op": "null", "name": name, "inputs": []} for name in ("w", "b")]
    layer = {"op": op, "name": "n", "attrs": attributes, "inputs": [[i, 0, 0] for i in range(3)]}
    path.write_text(json.dumps(symbol(VARIABLE, *further, layer)))
    weight = np.zeros((3, 3) if op == "FullyConnected" else (3, 3, 1, 1), np.float32)
    save_params(tmp_path / "x.params", {"arg:w": weight, "arg:b": np.zeros(3, np.float32)})
    shape = (1, 3) if op == "FullyConnected" else (1, 3, 2, 2)
    with pytest.raises(UnsupportedError, match=r"expected 2 inputs \(data, weight\)"):
        read(path, image(*shape), LoadOptions(params=tmp_path / "x.params"))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Pooling", {"kernel": "(2, 2)", "stride": "(0, 0)", "pooling_convention": "full"}),
        ("Pooling", {"kernel": "(1000000000000, 2)"}),
        ("one_hot", {"depth": "99999999999999"}),
        ("Cast", {"dtype": "nonsense"}),
        ("Reshape", {"shape": "(7, -1)"}),
        ("Reshape", {"shape": "(-4, 0)"}),
        ("transpose", {"axes": "(0, 9)"}),
        ("SliceChannel", {"num_outputs": "0"}),
        ("sum", {"axis": "abc"}),
        ("slice_axis", {"axis": "1", "begin": "0", "end": "3"}),
    ],
)
def test_impossible_attributes_are_refused_with_the_node(op: str, attributes: dict, tmp_path: Path) -> None:
    path = tmp_path / "x-symbol.json"
    node = {"op": op, "name": "n", "attrs": attributes, "inputs": [[0, 0, 0]]}
    path.write_text(json.dumps(symbol(VARIABLE, node)))
    with pytest.raises((ModelError, UnsupportedError), match=r"E101|E203") as caught:
        read(path, image(1, 2, 4, 4), LoadOptions())
    assert "node 1 `n`" in str(caught.value)


def test_refused_forms_are_listed_beside_missing_operators(tmp_path: Path) -> None:
    """Those that nothing refused stands before; of the rest the error says how many they are."""
    path = tmp_path / "x-symbol.json"
    take = {"op": "take", "name": "t", "attrs": {"mode": "odd"}, "inputs": [[0, 0, 0], [0, 0, 0]]}
    reverse = {"op": "SequenceReverse", "name": "s", "attrs": {"axis": "1"}, "inputs": [[0, 0, 0]]}
    missing = {"op": "Nonsense", "name": "n", "inputs": [[0, 0, 0]]}
    relu = {"op": "relu", "name": "r", "inputs": [[3, 0, 0]]}

    def refused(*nodes: dict) -> UnsupportedError:
        joined = [[number + 1, 0, 0] for number in range(len(nodes))]
        total = {"op": "add_n", "name": "a", "inputs": joined}
        path.write_text(json.dumps(symbol(VARIABLE, *nodes, total)))
        with pytest.raises(UnsupportedError) as caught:
            read(path, image(2, 3), LoadOptions())
        return caught.value

    error = refused(take, reverse, missing, relu)
    assert [(m.operator, m.places) for m in error.missing] == [
        ("Nonsense", ("node 3 `n`",)), ("take", ("node 1 `t`",)), ("SequenceReverse", ("node 2 `s`",)),
    ]  # fmt: skip
    assert error.missing[1].reason == "expected the mode clip, wrap or raise, got odd"
    assert (error.code, error.message) == (
        "E201",
        "no lowering for 1 MXNet operator and 2 forms of operators",
    )
    assert error.hint.endswith("; 2 operators after these could not be checked")
    error = refused(take, reverse)
    assert (error.code, error.message) == ("E203", "no lowering for 2 forms of operators")
    error = refused(take)
    assert (error.message, error.missing) == ("`take`: expected the mode clip, wrap or raise, got odd", ())
