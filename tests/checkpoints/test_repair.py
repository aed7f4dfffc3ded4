"""What colliding names did to a checkpoint is found, undone where it can be, and said where it cannot."""

import json
import re
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner

import regraft
from regraft.api.weights import fit
from regraft.checkpoints import read_checkpoint
from regraft.checkpoints.placing import place
from regraft.cli import main

NET = '''
import mindspore as ms
import numpy as np
from mindspore import nn

class Twice(nn.Cell):
    """Two groups whose parameters have the same names."""
    def __init__(self, second=3, mended=False):
        super().__init__()
        self.stem = nn.Dense(2, 3)
        for name, width in (("g1", 3), ("g2", second)):
            group = nn.SequentialCell(nn.Dense(width, width), nn.BatchNorm1d(width))
            if mended:
                setattr(self, name, group)
            else:
                self.insert_child_to_cell(name, group)

def different():
    return Twice(5)

def mended():
    return Twice(mended=True)

class Plain(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(2, 3), nn.Dense(3, 2)

class Loose(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(2, 3)
        self.rest = [nn.Dense(3, 3)]

class Wide(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(2, 4), nn.Dense(4, 2)

class Frozen(nn.Cell):
    """The first group keeps fixed values, so that a tensor that has them can only be its own."""
    def __init__(self, turned=False):
        super().__init__()
        fixed, free = nn.SequentialCell(nn.Dense(3, 3)), nn.SequentialCell(nn.Dense(3, 3))
        fixed[0].weight.set_data(ms.Tensor(np.arange(9, dtype=np.float32).reshape(3, 3)))
        cells = [("fixed", fixed), ("free", free)]
        for name, cell in reversed(cells) if turned else cells:
            self.insert_child_to_cell(name, cell)

def turned():
    return Frozen(True)
'''


def invoke(*arguments: object):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    path = tmp_path_factory.mktemp("nets") / "net.py"
    path.write_text(NET)
    scope: dict = {}
    exec(compile(NET, str(path), "exec"), scope)
    return path, scope


def filled(net) -> dict[str, np.ndarray]:
    """Give every parameter values of its own; what they are, by path."""
    random = np.random.default_rng(0)
    for _, parameter in net.parameters_and_names():
        values = random.standard_normal(parameter.shape).astype(np.float32)
        parameter.set_data(ms.Tensor(values))
    return {path: p.asnumpy().copy() for path, p in net.parameters_and_names()}


@pytest.mark.parametrize("kind", ["ckpt", "safetensors"])
@pytest.mark.parametrize(
    "saved", [lambda net: net, lambda net: list(net.get_parameters())], ids=["net", "list"]
)
@pytest.mark.parametrize("now", ["Twice", "mended"])
def test_the_kept_half_gets_its_paths_and_the_lost_half_is_named(nets, tmp_path, kind, saved, now):
    path, scope = nets
    net = scope["Twice"]()
    values = filled(net)
    old, new = tmp_path / f"old.{kind}", tmp_path / "new.ckpt"
    ms.save_checkpoint(saved(net), str(old), format=kind)
    result = invoke("repair-checkpoint", f"{path}:{now}", old, "-o", new)
    assert result.exit_code == 1, result.output
    assert "DAMAGED when it was saved: 6 of 14" in result.output
    assert "`g1` and `g2` shared 6 names" in result.output
    assert "that of `g2` (6 by order" in result.output
    assert "lost: 6 of `g1`" in result.output
    got = ms.load_checkpoint(str(new))
    assert set(got) == {p for p in values if not p.startswith("g1.")}  # nothing is invented
    for name, parameter in got.items():
        np.testing.assert_array_equal(parameter.asnumpy(), values[name])
    fresh = scope["mended"]()
    lacking, _ = ms.load_param_into_net(fresh, got)
    assert sorted(lacking) == sorted(p for p in values if p.startswith("g1."))


def test_diff_says_verdict_cause_and_what_to_type(nets, tmp_path):
    path, scope = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint(scope["Twice"](), str(old))
    result = invoke("diff", f"{path}:Twice", old)
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith("DAMAGED")
    assert "`g1` and `g2`" in lines[1]
    command = lines[2].removeprefix("write: regraft ").split()
    assert command[0] == "repair-checkpoint"
    command[-1] = str(tmp_path / "typed.ckpt")
    assert invoke(*command).exit_code == 1
    assert len(read_checkpoint(tmp_path / "typed.ckpt")) == 8
    assert "unique_names" in lines[3]
    other = invoke("diff", old, f"{path}:Twice", "--json")  # in either order
    document = json.loads(other.output)
    assert (document["equal"], len(document["shared"][0]["lost"])) == (False, 6)


def test_a_whole_checkpoint_is_called_whole(nets, tmp_path):
    path, scope = nets
    for name, count in (("Plain", 4), ("mended", 14)):
        net, old = scope[name](), tmp_path / f"{name}.ckpt"
        ms.save_checkpoint(net, str(old))
        result = invoke("diff", f"{path}:{name}", old)
        assert (result.exit_code, result.output.strip()) == (
            0, f"fits: {count} of {count} parameters of the net have a tensor of their name and shape",
        )  # fmt: skip
        done = invoke("repair-checkpoint", f"{path}:{name}", old, "-o", tmp_path / f"{name}2.ckpt")
        assert done.exit_code == 0, done.output
        assert invoke("diff", old, tmp_path / f"{name}2.ckpt").exit_code == 0


def test_shapes_that_do_not_fit_are_said_with_both(nets, tmp_path):
    path, scope = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint(scope["Plain"](), str(old))
    result = invoke("diff", f"{path}:Wide", old)
    assert result.exit_code == 1
    assert result.output.startswith("DOES NOT FIT: 3 tensors")
    assert "`a.weight` is [3, 2] in the file, and `a.weight` [4, 2] in the net" in result.output
    advised = f"`regraft convert-checkpoint {old} old.repaired.ckpt --like {path}:Wide --map FILE`"
    assert advised in result.output
    typed = ["convert-checkpoint", old, tmp_path / "typed.ckpt", "--like", f"{path}:Wide"]
    (tmp_path / "map.json").write_text('{"a": null, "b": null}')
    assert invoke(*typed).exit_code == 2
    assert invoke(*typed, "--map", tmp_path / "map.json").exit_code == 0
    assert invoke("repair-checkpoint", f"{path}:Wide", old, "-o", tmp_path / "n.ckpt").exit_code == 1
    assert set(read_checkpoint(tmp_path / "n.ckpt")) == {"b.bias"}


def test_a_conversion_is_advised_only_if_the_file_has_enough_elements(nets, tmp_path):
    path, _ = nets
    for name, saved, told in (
        ("other names", {"x.weight": [3, 2], "x.bias": [3]}, True),
        ("a bias too few", {"x.weight": [3, 2]}, False),
    ):
        held = {"b.weight": [2, 3], "b.bias": [2], **saved}
        file = tmp_path / f"{name}.ckpt"
        ms.save_checkpoint([{"name": n, "data": ms.ops.ones(s)} for n, s in held.items()], str(file))
        advice = fit(f"{path}:Plain", file).advice
        assert [line.startswith("regraft convert-checkpoint") for line in advice] == [True] * told, name


def test_a_shape_tells_whose_a_tensor_is(nets, tmp_path):
    path, scope = nets
    net, old = scope["different"](), tmp_path / "old.ckpt"
    values = filled(net)
    ms.save_checkpoint(net, str(old))
    done = regraft.repair_checkpoint(f"{path}:different", old, tmp_path / "new.ckpt")
    assert {s.by for s in done.fit.placement.shared} == {"shape"}
    got = read_checkpoint(tmp_path / "new.ckpt")
    np.testing.assert_array_equal(got["g2.0.weight"].numpy(), values["g2.0.weight"])
    assert "g1.0.weight" not in got


def test_values_tell_more_than_the_order_does(nets, tmp_path):
    """The net was reordered since: its last group is another than that which was saved last."""
    path, scope = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint(scope["turned"](), str(old))  # `fixed` is last, and kept
    done = regraft.repair_checkpoint(f"{path}:Frozen", old, tmp_path / "new.ckpt")  # `free` is last
    assert done.fit.placement.placed["0.weight"][1] == "value"
    np.testing.assert_array_equal(
        read_checkpoint(tmp_path / "new.ckpt")["fixed.0.weight"].numpy(), np.arange(9.0).reshape(3, 3)
    )


def test_whose_cannot_be_known_is_placed_nowhere(nets, tmp_path):
    """Two groups fit and the one that was saved last does not: the net is not the one that was saved."""
    path, _ = nets
    three = path.with_name("three.py")
    three.write_text(
        NET + "\nclass Three(Twice):\n    def __init__(self):\n        super().__init__()\n"
        '        self.insert_child_to_cell("g3", nn.SequentialCell(nn.Dense(7, 7)))\n'
    )
    old = tmp_path / "old.ckpt"
    tensors = {"0.weight": np.eye(3, dtype=np.float32), "stem.bias": np.ones(3, np.float32)}
    ms.save_checkpoint([{"name": n, "data": ms.Tensor(v)} for n, v in tensors.items()], str(old))
    done = regraft.repair_checkpoint(f"{three}:Three", old, tmp_path / "new.ckpt")
    assert done.fit.placement.shared[0].kept is None
    assert set(read_checkpoint(tmp_path / "new.ckpt")) == {"stem.bias"}
    assert "whose, nothing tells" in done.fit.causes[0]


def test_a_part_of_a_net_is_not_taken_for_a_damaged_whole(nets, tmp_path):
    """A group that was saved alone fits both: no name says that it was this net that was saved."""
    path, scope = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint(scope["Twice"]().g1, str(old))
    found = fit(f"{path}:mended", old)
    assert (found.placement.placed, {s.kept for s in found.placement.shared}) == ({}, {None})
    assert found.verdict.startswith("NOT TOLD: 6 names of the file")


def test_what_lies_in_a_plain_list_was_never_saved(nets, tmp_path):
    path, scope = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint(scope["Loose"](), str(old))
    result = invoke("diff", f"{path}:Loose", old)
    assert result.exit_code == 1
    assert "INCOMPLETE: 2 of 4" in result.output
    assert "are in a plain list or dict" in result.output


@pytest.mark.parametrize(
    "optimizer",
    [
        "Adam",
        "AdamWeightDecay",
        "Momentum",
        "SGD",
        "RMSProp",
        "Adagrad",
        "Lamb",
        "FTRL",
        "ASGD",
        "Rprop",
        "Adadelta",
    ],
)
def test_slots_follow_their_parameters(nets, tmp_path, optimizer):
    """The optimizers of MindSpore itself name the slots; the net was mended since, so all names changed."""
    path, scope = nets
    net = scope["Twice"]()
    kept = [p for name, p in net.parameters_and_names() if not name.startswith("g1") and p.requires_grad]
    rates = {"Momentum": (0.1, 0.9), "Lamb": (0.1,)}.get(optimizer, ())
    made = getattr(ms.nn, optimizer)(kept, *rates)
    old, new = tmp_path / "old.ckpt", tmp_path / "new.ckpt"
    ms.save_checkpoint(made, str(old))
    done = regraft.repair_checkpoint(f"{path}:mended", old, new)
    expected = [re.sub(r"([01]\.\w+)$", r"g2.\1", p.name) for p in made.get_parameters()]
    assert set(read_checkpoint(new)) == set(expected)
    assert done.fit.placement.unknown == []


def test_a_file_of_another_net_is_refused(nets, tmp_path):
    path, _ = nets
    old = tmp_path / "old.ckpt"
    ms.save_checkpoint([{"name": "epoch", "data": ms.Tensor(1)}], str(old))
    result = invoke("repair-checkpoint", f"{path}:Plain", old, "-o", tmp_path / "new.ckpt")
    assert (result.exit_code, Path(tmp_path / "new.ckpt").exists()) == (2, False)
    assert "E801" in result.output


def test_paths_are_those_that_mindspore_gives():
    """`unique_names`, and MindSpore at a net's first call, name parameters so: what is written must load."""
    net = ms.nn.Cell()
    for name in ("a", "b"):
        layers = [ms.nn.LSTM(3, 4), ms.nn.MultiheadAttention(4, 2), ms.nn.BatchNorm3d(3), ms.nn.PReLU(3)]
        net.insert_child_to_cell(name, ms.nn.SequentialCell(*layers))
    members = place(regraft.load_tree(net), {}).members
    assert [m.name for m in members] == [path for path, _ in net.parameters_and_names()]
    assert len({m.declared for m in members}) < len(members)


def test_counts_of_batches_come_and_go_with_torch(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_model
    from torch import nn

    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    cell = ms.nn.SequentialCell(ms.nn.Dense(2, 3), ms.nn.BatchNorm1d(3))
    ms.save_checkpoint(cell, str(tmp_path / "cell.ckpt"))
    there = regraft.repair_checkpoint(net, tmp_path / "cell.ckpt", tmp_path / "net.safetensors")
    assert there.whole
    assert there.tensors == 7
    net[1].num_batches_tracked.fill_(3)
    load_model(net, tmp_path / "net.safetensors")
    assert int(net[1].num_batches_tracked) == 0
    np.testing.assert_array_equal(net[0].weight.detach().numpy(), cell[0].weight.asnumpy())
    torch.save(net.state_dict(), tmp_path / "net.pth")
    back = regraft.repair_checkpoint(cell, tmp_path / "net.pth", tmp_path / "back.ckpt")
    assert back.whole
    assert back.fit.verdict == "whole, under other names: 4 of 6 tensors are called otherwise in the net"
    assert any("1.num_batches_tracked" in remark for remark in back.fit.remarks)
    assert set(ms.load_checkpoint(str(tmp_path / "back.ckpt"))) == set(cell.parameters_dict())


def test_two_emitted_folders_are_two_checkpoints(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    for name, scale in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        save_file({"w": np.arange(3, dtype=np.float32) * scale}, tmp_path / name / "model.safetensors")
        (tmp_path / name / "renames.json").write_text("{}")
    runner = CliRunner()
    for other, code in (("b", 0), ("c", 1)):
        result = runner.invoke(main, ["diff", str(tmp_path / "a"), str(tmp_path / other)])
        assert result.exit_code == code, result.output


def test_a_file_with_a_model_in_it_is_no_target_and_may_be_compared_as_one(tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    net.write_text(
        "from torch import nn\n\ndef Net():\n"
        "    return nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU())\n"
    )
    file = tmp_path / "net.onnx"
    rewritten = invoke("rewrite", f"{net}:Net", "--input", "2x5x4", "-o", file, "--no-verify")
    assert rewritten.exit_code == 0, rewritten.output
    found = invoke("diff", f"{net}:Net", file)
    assert found.exit_code == 1
    assert "`0.weight` is [4, 3] in the file, and `0.weight` [3, 4] in the net" in found.output
    written = tmp_path / "net.repaired.safetensors"
    assert f"regraft convert-checkpoint {file} net.repaired.safetensors --like {net}:Net" in found.output
    assert f"note: `regraft diff {net}:Net {file} --input SHAPE` compares both as models" in found.output
    done = invoke("convert-checkpoint", file, written, "--like", f"{net}:Net")
    assert done.output.endswith("net.repaired.safetensors: 1 tensor\n")
    assert read_checkpoint(written)["0.weight"].shape == (3, 4)
    assert "operators" in invoke("diff", f"{net}:Net", file, "--input", "2x5x4").output
