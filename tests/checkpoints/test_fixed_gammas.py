"""A scale that BatchNorm of MXNet fixes at 1 is 1 in what is converted and compared, whatever is stored."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from regraft import convert_checkpoint, diff, verify
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.ir import TensorData

STORED = {"a": (0.5, 2.0, 3.0), "b": (1.5, 0.25, 2.5)}
PORT = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.BatchNorm2d(3, eps=1e-3)
        self.b = nn.BatchNorm2d(3, eps=1e-3)

    def forward(self, x):
        return self.b(self.a(x))

def converted():
    import torch

    net = Net()
    net.load_state_dict(torch.load(__file__.replace("port.py", "m.pth")))
    return net
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A symbol whose first BatchNorm says nothing of fix_gamma, and whose second has none, and its port."""
    nodes: list[dict] = [{"op": "null", "name": "data", "inputs": []}]
    last = 0
    for layer, attributes in (("a", {"eps": "0.001"}), ("b", {"eps": "0.001", "fix_gamma": "False"})):
        roles = ("gamma", "beta", "moving_mean", "moving_var")
        start = len(nodes)
        nodes += [{"op": "null", "name": f"{layer}_{role}", "inputs": []} for role in roles]
        inputs = [[last, 0, 0], *([start + at, 0, 0] for at in range(4))]
        nodes.append({"op": "BatchNorm", "name": layer, "attrs": attributes, "inputs": inputs})
        last = len(nodes) - 1
    symbol = {
        "nodes": nodes,
        "arg_nodes": [at for at, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[last, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10900]},
    }
    (tmp_path / "net-symbol.json").write_text(json.dumps(symbol))
    random = np.random.default_rng(0)
    values = {}
    for layer, gamma in STORED.items():
        values[f"arg:{layer}_gamma"] = np.array(gamma, np.float32)
        values[f"arg:{layer}_beta"] = random.random(3).astype(np.float32)
        values[f"aux:{layer}_moving_mean"] = random.random(3).astype(np.float32)
        values[f"aux:{layer}_moving_var"] = random.random(3).astype(np.float32) + 1
    write_checkpoint(tmp_path / "net-0000.params", {n: TensorData.of(v) for n, v in values.items()})
    (tmp_path / "port.py").write_text(PORT)
    return tmp_path


def test_the_right_port_is_equal_and_its_map_converts(folder):
    symbol, port, pairs = folder / "net-symbol.json", f"{folder / 'port.py'}:Net", folder / "map.json"
    report = verify(symbol, port, ["2x3x4x4"], write_map=pairs)
    assert report.passed
    (folder / "away").mkdir()
    shutil.copy(folder / "net-0000.params", folder / "away")
    for source in (folder / "net-0000.params", folder / "away/net-0000.params"):
        convert_checkpoint(source, folder / "m.pth", pairs, force=True)
        made = torch.load(folder / "m.pth")
        assert made["a.weight"].tolist() == [1, 1, 1]
        assert tuple(made["b.weight"].tolist()) == STORED["b"]
    # whose own values are ones, as they were converted: nothing differs
    assert not verify(symbol, f"{folder / 'port.py'}:converted", ["2x3x4x4"]).nets.differing


@pytest.mark.parametrize("target", ["x.pth", "x.ckpt", "x.safetensors"])
@pytest.mark.parametrize("like", [False, True])
def test_what_a_symbol_beside_the_file_fixes_is_written_as_ones(folder, target, like):
    options = {"like": f"{folder / 'port.py'}:Net"} if like else {}
    done = convert_checkpoint(folder / "net-0000.params", folder / target, **options)
    made = read_checkpoint(folder / target)
    first, second = sorted(n for n in made if n.endswith(("gamma", "weight")))
    assert made[first].numpy().tolist() == [1, 1, 1]
    assert tuple(made[second].numpy().tolist()) == STORED["b"]
    assert "`a_gamma`: taken as 1, as fix_gamma in `net-symbol.json` says, not as stored" in done.notes
    assert diff(folder / "net-0000.params", folder / target).equal


def test_without_the_symbol_a_note_names_what_may_be_fixed(folder):
    (folder / "net-symbol.json").unlink()
    done = convert_checkpoint(folder / "net-0000.params", folder / "x.pth")
    assert tuple(torch.load(folder / "x.pth")["a.weight"].tolist()) == STORED["a"]
    [note] = [note for note in done.notes if "fix_gamma" in note]
    assert note.startswith("`a_gamma`, `b_gamma`: carried over as stored")
    assert "`net-symbol.json`" in note
    ones = {n: TensorData.of(np.ones(3, np.float32)) for n in ("a_gamma", "a_moving_mean")}
    write_checkpoint(folder / "one-0000.params", ones)
    done = convert_checkpoint(folder / "one-0000.params", folder / "y.safetensors")
    assert not any("fix_gamma" in note for note in done.notes)
