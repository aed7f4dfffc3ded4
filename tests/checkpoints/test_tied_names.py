"""One tensor under several names is one: in a file of torch, in a net that is tied, and between the two."""

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import safetensors.torch
import torch

from regraft import convert_checkpoint, diff, load_tree, repair_checkpoint
from regraft.api.weights import fit
from regraft.ir import ModelError

NETS = '''
import torch
from mindspore import nn, ops

class Tied(nn.Cell):
    """Its Parameter is called by the second of its paths."""
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Dense(6, 6, has_bias=False)
        self.layer2 = nn.Dense(6, 6, has_bias=False)
        self.layer1.weight = self.layer2.weight

    def construct(self, x):
        return self.layer2(ops.relu(self.layer1(x)))

class Model(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.lm_head = nn.Dense(6, 11, has_bias=False)
        self.lm_head.weight = self.embed.embedding_table

class TorchModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 6)
        self.lm_head = torch.nn.Linear(6, 11, bias=False)
        self.lm_head.weight = self.embed.weight
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


@pytest.mark.parametrize(
    ("net", "names", "own"),
    [
        ("Tied", ("layer1.weight", "layer2.weight"), "layer2.weight"),
        ("Model", ("embed.weight", "lm_head.weight"), "embed.embedding_table"),
    ],
)
@pytest.mark.parametrize("copies", [False, True])
def test_both_names_of_a_file_fit_a_net_that_has_one(folder, net, names, own, copies):
    """Also where the file holds the elements twice."""
    source, target, model = folder / "a.pth", folder / "b.ckpt", f"{folder / 'nets.py'}:{net}"
    one = torch.randn(11 if net == "Model" else 6, 6)
    torch.save({n: one.clone() if copies else one for n in names}, source)
    found = fit(model, source)
    assert found.placement.whole
    assert found.equal is (own in names)
    convert_checkpoint(source, target, like=model)
    repair_checkpoint(model, source, folder / "r.ckpt")
    for file in (target, folder / "r.ckpt"):
        cell = load_tree(model).origin.model
        assert ms.load_param_into_net(cell, ms.load_checkpoint(str(file))) == ([], [])
        assert np.array_equal(cell.parameters_dict()[own].asnumpy(), one.numpy())
        assert fit(model, file).equal
        if not copies:
            assert diff(source, file).equal
            assert diff(file, source).equal
    torch.save({names[0]: one, names[1]: one + 1}, source)
    assert not fit(model, source).placement.whole
    with pytest.raises(
        ModelError, match=r"(?s)E801 .*does not fit the net.*tied in the target, and differ here"
    ):
        convert_checkpoint(source, target, like=model, force=True)
    assert not diff(source, target).equal


def test_a_file_that_leaves_tied_names_out_fits_a_net_of_torch(folder):
    """As safetensors saves them; nothing of it is damaged."""
    model = f"{folder / 'nets.py'}:TorchModel"
    net = load_tree(model).origin.model
    safetensors.torch.save_model(net, str(folder / "a.safetensors"))
    found = fit(model, folder / "a.safetensors")
    assert found.equal
    [note] = [line for line in found.remarks if "one tensor" in line]
    assert "`embed.weight`" in note
    assert "`lm_head.weight`" in note
    repair_checkpoint(model, folder / "a.safetensors", folder / "b.pth")
    net.load_state_dict(torch.load(folder / "b.pth"), strict=True)
    torch.save(net.state_dict(), folder / "c.pth")
    assert diff(folder / "a.safetensors", folder / "c.pth").equal
