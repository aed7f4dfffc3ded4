"""A fused projection against three computes the same; where nobody says the layout it is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from regraft import convert_checkpoint, diff
from regraft.checkpoints import read_checkpoint
from regraft.checkpoints.mapping import read_map
from regraft.formats.renames import Rename, write_renames
from regraft.ir import ModelError

WIDTH, HEADS = 8, 4
NETS = f"""
import torch
from torch import nn

class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear({WIDTH}, {WIDTH}) for _ in range(3))
        self.out = nn.Linear({WIDTH}, 3)

    def forward(self, x):
        heads = [p(x).unflatten(-1, ({HEADS}, -1)).transpose(1, 2) for p in (self.q, self.k, self.v)]
        return self.out(nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))

class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear({WIDTH}, {3 * WIDTH}), nn.Linear({WIDTH}, 3)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, {HEADS}, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        y = nn.functional.scaled_dot_product_attention(*self.split(x))
        return self.out(y.transpose(1, 2).flatten(2))

class ByHead(Stacked):
    def split(self, x):
        return self.qkv(x).unflatten(-1, ({HEADS}, 3, -1)).permute(3, 0, 2, 1, 4)
"""


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    path = tmp_path_factory.mktemp("nets") / "attention.py"
    path.write_text(NETS)
    scope: dict = {}
    exec(compile(NETS, str(path), "exec"), scope)
    return path, scope


def pairs(folder, heads=None):
    path = folder / "pairs.json"
    parts = ["q", "k", "v"]
    path.write_text(json.dumps({"qkv": parts if heads is None else {"parts": parts, "heads": heads}}))
    return path


@pytest.mark.parametrize("kind", ["Stacked", "ByHead"])
@pytest.mark.parametrize("like", [False, True], ids=["by-names", "like"])
def test_a_fused_projection_becomes_three_and_three_become_one(nets, tmp_path, kind, like):
    file, scope = nets
    torch.manual_seed(0)
    fused, apart, again = scope[kind](), scope["Apart"](), scope[kind]()
    said = pairs(tmp_path, HEADS if kind == "ByHead" else None)
    x = torch.randn(2, 5, WIDTH)
    torch.save(fused.state_dict(), tmp_path / "a.pth")
    options = [{"like": f"{file}:Apart"}, {"like": f"{file}:{kind}"}] if like else [{}, {}]
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", said, **options[0])
    apart.load_state_dict(torch.load(tmp_path / "b.pth"))
    torch.testing.assert_close(apart(x), fused(x))
    convert_checkpoint(tmp_path / "b.pth", tmp_path / "c.pth", said, **options[1])
    again.load_state_dict(torch.load(tmp_path / "c.pth"))
    assert torch.equal(again.qkv.weight, fused.qkv.weight)
    assert diff(tmp_path / "a.pth", tmp_path / "b.pth", said).equal
    assert diff(tmp_path / "b.pth", tmp_path / "a.pth", said).equal


def test_the_wrong_layout_is_a_difference(nets, tmp_path):
    _, scope = nets
    fused = scope["ByHead"]()
    torch.save(fused.state_dict(), tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", pairs(tmp_path, HEADS))
    assert not diff(tmp_path / "a.pth", tmp_path / "b.pth", pairs(tmp_path)).equal


def test_without_a_word_it_is_refused_with_what_to_write(nets, tmp_path):
    file, scope = nets
    torch.save(scope["Stacked"]().state_dict(), tmp_path / "a.pth")
    with pytest.raises(ModelError, match="E801") as error:
        convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", like=f"{file}:Apart")
    assert '{"qkv": ["q", "k", "v"]}' in error.value.hint
    assert "shapes do not decide which" in error.value.hint


def test_an_optimizers_state_is_split_too(nets, tmp_path):
    _, scope = nets
    net = scope["Stacked"]()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(2, 5, WIDTH)).square().sum().backward()
    optimizer.step()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", pairs(tmp_path))
    found = read_checkpoint(tmp_path / "b.ckpt")
    moment = optimizer.state[net.qkv.weight]["exp_avg"].numpy()
    np.testing.assert_array_equal(found["moment1.k.weight"].numpy(), moment[WIDTH : 2 * WIDTH])


def renames(folder, joins):
    path = folder / "renames.json"
    write_renames(
        path, [Rename("out", "out", "out", shape=[2], target_shape=[2])], source="torch", target="torch"
    )
    path.write_text(json.dumps({**json.loads(path.read_text()), "joins": joins}))
    return path


def test_joins_of_a_map_go_both_ways(tmp_path):
    """A packed vector of recurrent parameters with two gates exchanged: rows of one block each."""
    join = {"source": {"w": [4, 3], "b": [4]}, "target": {"all": [16]}, "dtype": "float32"}
    path = renames(tmp_path, [join])
    w, b = torch.arange(12.0).reshape(4, 3), torch.arange(4.0)
    torch.save({"w": w, "b": b, "out": torch.ones(2)}, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", path)
    assert torch.equal(torch.load(tmp_path / "b.pth")["all"], torch.cat([w.reshape(-1), b]))
    convert_checkpoint(tmp_path / "b.pth", tmp_path / "c.pth", path)
    assert torch.equal(torch.load(tmp_path / "c.pth")["w"], w)
    assert diff(tmp_path / "a.pth", tmp_path / "b.pth", path).equal
    join = {"source": {"z": [4, 1]}, "target": {"y": [4]}, "dtype": "float32", "order": [1, 0, 3, 2]}
    torch.save({"z": torch.arange(4.0).reshape(4, 1), "out": torch.ones(2)}, tmp_path / "d.pth")
    convert_checkpoint(tmp_path / "d.pth", tmp_path / "e.pth", renames(tmp_path, [join]))
    assert torch.load(tmp_path / "e.pth")["y"].tolist() == [1, 0, 3, 2]


def documented(language):
    """The record that a page of the documentation shows."""
    page = Path(__file__).parents[2] / "docs" / language / "guides" / "checkpoints.md"
    text = page.read_text(encoding="utf-8")
    (found,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    return json.loads(found)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_record_that_the_page_shows_splits_rows_that_alternate_by_two_heads(language, tmp_path):
    path = renames(tmp_path, [documented(language)])
    rows = torch.randn(2, 3, 4, 8)  # heads, parts, rows of a head
    whole = {"qkv.weight": rows.reshape(24, 8), "out": torch.ones(2)}
    torch.save(whole, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", path)
    made = torch.load(tmp_path / "b.pth")
    for at, name in enumerate("qkv"):
        assert torch.equal(made[f"{name}.weight"], rows[:, at].reshape(8, 8))
    convert_checkpoint(tmp_path / "b.pth", tmp_path / "c.pth", path)
    assert torch.equal(torch.load(tmp_path / "c.pth")["qkv.weight"], whole["qkv.weight"])
    assert diff(tmp_path / "b.pth", tmp_path / "a.pth", path).equal
    torch.save({**whole, "qkv.weight": whole["qkv.weight"].double()}, tmp_path / "d.pth")
    with pytest.raises(ModelError, match=r"`qkv.weight`: expected float32 \[24, 8\], got float64"):
        convert_checkpoint(tmp_path / "d.pth", tmp_path / "e.pth", path)
    torch.save({**whole, "qkv.weight": whole["qkv.weight"][:23]}, tmp_path / "f.pth")
    with pytest.raises(ModelError, match=r"expected float32 \[24, 8\], got float32 \[23, 8\]"):
        convert_checkpoint(tmp_path / "f.pth", tmp_path / "e.pth", path)
    with pytest.raises(ModelError, match="every name of the source in one join"):
        read_map(renames(tmp_path, [documented(language)] * 2))


def test_diff_by_a_record_compares_other_types_and_says_where_shapes_are_others(tmp_path):
    path = renames(tmp_path, [documented("en")])
    whole = {"qkv.weight": torch.randn(24, 8), "out": torch.ones(2)}
    torch.save(whole, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", path)
    report = diff(tmp_path / "a.pth", tmp_path / "b.pth", path)
    assert (report.equal, report.notes) == (True, [])
    torch.save({n: v.bfloat16() for n, v in whole.items()}, tmp_path / "c.pth")
    rows = diff(tmp_path / "c.pth", tmp_path / "b.pth", path).rows
    assert {row.name: row.dtypes for row in rows}["q.weight"] == ("bfloat16", "float32")
    assert all(row.max_abs is not None and row.max_abs < 0.02 for row in rows)
    torch.save({**whole, "qkv.weight": torch.randn(25, 8)}, tmp_path / "d.pth")
    report = diff(tmp_path / "d.pth", tmp_path / "b.pth", path)
    assert (report.only_first, report.only_second) == (["qkv.weight"], ["q.weight", "k.weight", "v.weight"])
    assert any("`qkv.weight` differs from the map in shape or type" in note for note in report.notes)


def test_a_record_serves_with_a_net_too(nets, tmp_path):
    file, scope = nets
    shapes = {"weight": [WIDTH, WIDTH], "bias": [WIDTH]}
    record = [
        {
            "source": {f"qkv.{role}": [3 * WIDTH, *shape[1:]]},
            "target": {f"{part}.{role}": shape for part in "qkv"},
            "dtype": "float32",
        }
        for role, shape in shapes.items()
    ]
    fused, apart = scope["Stacked"](), scope["Apart"]()
    torch.save({n: v.bfloat16() for n, v in fused.state_dict().items()}, tmp_path / "a.pth")
    done = convert_checkpoint(
        tmp_path / "a.pth", tmp_path / "b.pth", renames(tmp_path, record), like=f"{file}:Apart"
    )
    assert any("from bfloat16 to float32" in note for note in done.notes)
    apart.load_state_dict(torch.load(tmp_path / "b.pth"))
    x = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(apart(x), fused.bfloat16().float()(x))


def test_a_name_in_a_row_and_in_a_record_is_refused(tmp_path):
    both = [{"source": {"a": [2]}, "target": {"out": [2]}, "dtype": "float32"}]
    with pytest.raises(ModelError, match="`out` in a row or in a join"):
        read_map(renames(tmp_path, both))
    path = renames(tmp_path, [])
    packed = {"source": [{"source": {"out": [2]}, "target": {"a": [2]}, "dtype": "float32"}], "target": []}
    path.write_text(json.dumps({**json.loads(path.read_text()), "packed": packed}))
    with pytest.raises(ModelError, match="`out` in a row or in a join"):
        read_map(path)


def test_a_vector_beside_what_it_holds_is_refused(tmp_path):
    path = renames(tmp_path, [])
    packed = {"source": [{"source": {"v": [2]}, "target": {"out": [2]}, "dtype": "float32"}], "target": []}
    path.write_text(json.dumps({**json.loads(path.read_text()), "packed": packed}))
    torch.save({"v": torch.zeros(2), "out": torch.ones(2)}, tmp_path / "a.pth")
    with pytest.raises(ModelError, match="only in the checkpoint: `v`"):
        convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", path)


def test_a_record_without_order_is_one_piece_and_blocks_are_bounded(tmp_path):
    record = {"source": {"a": [70000]}, "target": {"b": [70000]}, "dtype": "float32"}
    torch.save({"a": torch.arange(70000.0), "out": torch.ones(2)}, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.pth", renames(tmp_path, [record]))
    assert torch.equal(torch.load(tmp_path / "b.pth")["b"], torch.arange(70000.0))
    with pytest.raises(ModelError, match="permutation of the blocks"):
        read_map(renames(tmp_path, [{**record, "order": list(range(70000))}]))


@pytest.mark.parametrize(
    "join",
    [
        3,
        {"source": {"a": [4]}, "target": {"b": [5]}, "dtype": "float32"},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": "float32", "order": [0, 0]},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": "float32", "order": [0, 2, 1]},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": "float32", "order": [True, 0]},
        {"source": {"a": [-4]}, "target": {"b": [-4]}, "dtype": "float32"},
        {"source": {"a": [1 << 62, 4]}, "target": {"b": [1 << 62, 4]}, "dtype": "float32"},
        {"source": {"a": ["4"]}, "target": {"b": [4]}, "dtype": "float32"},
        {"source": {}, "target": {}, "dtype": "float32"},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": "string"},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": "float32", "more": 1},
        {"source": {"a": [4]}, "target": {"b": [4]}, "dtype": []},
    ],
)
def test_hostile_joins_are_one_error(tmp_path, join):
    with pytest.raises(ModelError, match="E10"):
        read_map(renames(tmp_path, [join]))
