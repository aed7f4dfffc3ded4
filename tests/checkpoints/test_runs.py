"""Two folders of checkpoints: epochs are aligned, and where the runs part is named, by epoch and layer."""

import json

import mindspore as ms
import pytest
import torch
from click.testing import CliRunner

from regraft import convert_checkpoint
from regraft.api.weights import diff_runs
from regraft.cli import main
from regraft.ir import UsageError

EPOCHS = 4


def invoke(*arguments: object):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def trained(folder, *, seed=0, momentum=0.0, from_epoch=0, wide=False, name="epoch_{}.pth"):
    """Save a file an epoch; from `from_epoch` on the optimizer has momentum."""
    folder.mkdir()
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 3))
    if wide:
        torch.nn.init.normal_(net[0].weight, std=1.0)
    x = torch.randn(32, 6, generator=torch.Generator().manual_seed(9))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(EPOCHS):
        torch.save(net.state_dict(), folder / name.format(epoch))
        optimizer.param_groups[0]["momentum"] = momentum if epoch >= from_epoch else 0.0
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    return folder


def test_equal_runs_of_two_frameworks_are_together(tmp_path):
    first = trained(tmp_path / "a")
    second = tmp_path / "b"
    second.mkdir()
    for epoch in range(EPOCHS):  # MindSpore's own names, counted from 1: epoch and steps
        target = second / f"net-{epoch + 1}_100.ckpt"
        convert_checkpoint(first / f"epoch_{epoch}.pth", target)
        assert "1.moving_mean" in ms.load_checkpoint(str(target))
    result = invoke("diff", first, second)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("together: 4 checkpoints, 8 parameters, at most 0.0e+00 apart")
    assert "the numbers of the second run are 1 higher" in result.output


def test_where_the_runs_part_is_named(tmp_path):
    """Momentum is switched on after the file of epoch 1: that of epoch 2 is the first that differs."""
    first, second = trained(tmp_path / "a"), trained(tmp_path / "b", momentum=0.9, from_epoch=1)
    result = invoke("diff", first, second)
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith("PART at epoch 2, together until epoch 1: `0.weight` first")
    assert "the start was equal" in lines[1]
    assert "▁▁" in result.output
    document = json.loads(invoke("diff", first, second, "--json").output)
    assert document["parted"] == {"epochs": [2, 2], "layer": "0.weight"}
    layer = document["layers"][0]
    assert layer["gaps"][:2] == [0.0, 0.0]
    assert layer["gaps"][3] > layer["gaps"][2] > 1e-3
    assert len(layer["updates"][0]) == EPOCHS - 1
    assert layer["updates"][1][1] > layer["updates"][0][1]  # momentum takes larger steps


def test_another_seed_is_told_from_another_law(tmp_path):
    first = trained(tmp_path / "a")
    seed = diff_runs(first, trained(tmp_path / "seed", seed=1))
    assert seed.verdict.startswith("APART from the first checkpoint on (epoch 0): `0.weight`")
    assert "another seed" in seed.causes[-1]
    law = diff_runs(trained(tmp_path / "law", seed=1, wide=True), first)
    assert any("`0.weight` spreads 4" in line and "times larger" in line for line in law.causes), law.causes
    assert not any("`2.weight`" in line for line in law.causes)
    assert "initial laws" in law.causes[-1]


def test_names_come_from_a_map_and_files_from_the_numbers_that_vary(tmp_path):
    first = trained(tmp_path / "a", name="lr0.1-epoch{}.pth")
    second = tmp_path / "b"
    second.mkdir()
    pairs = tmp_path / "pairs.json"
    pairs.write_text(json.dumps({"0": "stem.fc", "1": "stem.bn", "2": "head"}))
    for epoch in range(EPOCHS - 1):
        convert_checkpoint(first / f"lr0.1-epoch{epoch}.pth", second / f"m3-{epoch}.ckpt", pairs)
    runs = diff_runs(first, second, pairs)
    assert (runs.parted, runs.epochs) == (None, [(0, 0), (1, 1), (2, 2)])
    assert runs.alone == (["lr0.1-epoch3.pth"], [])
    assert not runs.equal  # a file has no counterpart
    assert runs.layers[0].other == "stem.fc.weight"


def test_folders_that_have_nothing_in_common_are_refused(tmp_path):
    first = trained(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="epoch's number"):
        diff_runs(first, tmp_path / "empty")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "e9.pth").write_bytes((first / "epoch_0.pth").read_bytes())
    with pytest.raises(UsageError, match="same epochs"):
        diff_runs(first, tmp_path / "far")
