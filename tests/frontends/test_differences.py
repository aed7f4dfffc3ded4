"""The table of differences is true: each row is run in both frameworks, and reported as the table says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.common.initializer as init
import numpy as np
import pytest
import torch
from mindspore import nn, ops
from mindspore.experimental import optim as experimental

import regraft
from regraft.frontends.differences import (
    COMPUTED,
    DRAWN,
    FAMILIES,
    FORMER,
    INITIAL_VALUES,
    OPTIMIZERS,
    SCHEDULES,
    STATE,
    Difference,
)

from .difference_nets import call_of, given_of, shapes_of, write_net
from .difference_spellings import SPELLINGS

pytestmark = pytest.mark.filterwarnings("ignore")
"""Torch warns of some of its own defaults, which are rows here."""
MOST = 36
"""Rows of one net, where no cause is searched for."""
ROWS = [row for rows in COMPUTED.values() for row in rows]
ALL = [*ROWS, *SPELLINGS]


def batches(rows: Sequence[Difference], size: int) -> list[Any]:
    return [pytest.param(rows[at : at + size], id=str(at)) for at in range(0, len(rows), size)]


@pytest.mark.parametrize("rows", [ROWS, SPELLINGS], ids=["table", "other spellings"])
def test_verify_names_what_to_write_of_nearly_all(rows: Sequence[Difference]) -> None:
    assert sum(bool(row.said) for row in rows) >= 0.95 * len(rows)


def test_there_are_many_and_each_is_there_once() -> None:
    assert sum(map(len, FAMILIES.values())) >= 150
    for rows in FAMILIES.values():
        pairs = [(row.torch, row.naive) for row in rows]
        assert len(set(pairs)) == len(pairs)
        assert all(row.here and row.there and row.write for row in rows)


@pytest.mark.parametrize("rows", batches(ALL, MOST))
def test_right_ports_are_equal(rows: Sequence[Difference], tmp_path: Path) -> None:
    source, port = (
        write_net(tmp_path / "source.py", rows, "torch"),
        write_net(tmp_path / "port.py", rows, "right"),
    )
    report = regraft.verify(source.reference, port.reference, [str(source.size)])
    assert report.passed, report.render()


@pytest.mark.usefixtures("without_search")
@pytest.mark.parametrize("rows", batches(ALL, MOST))
def test_naive_ports_are_caught(rows: Sequence[Difference], tmp_path: Path) -> None:
    source, port = (
        write_net(tmp_path / "source.py", rows, "torch"),
        write_net(tmp_path / "port.py", rows, "naive"),
    )
    # at one size: each further one compiles the cell once more
    text = regraft.verify(source.reference, port.reference, [str(source.size)], dynamic_batch=False).render()
    assert text.startswith("DIFFERENT")
    for at, row in enumerate(rows):
        assert re.search(
            rf"^(output_{at} .*FAILED|only in .*\brow{at}\b|row{at}\S*#1 .*FAILED)", text, re.M
        ), row


@pytest.mark.parametrize("row", [row for row in ALL if row.said][::12], ids=lambda row: row.naive)
def test_a_naive_port_is_named_at_its_line_with_what_to_write(row: Difference, tmp_path: Path) -> None:
    source = write_net(tmp_path / "source.py", [row], "torch")
    port = write_net(tmp_path / "port.py", [row], "naive")
    # at one size: each further one compiles the cell once more
    text = regraft.verify(source.reference, port.reference, [str(source.size)], dynamic_batch=False).render()
    assert text.startswith("DIFFERENT")
    first = next(line for line in text.splitlines() if "write: " in line)
    assert row.said in first, text
    assert any(first.endswith(f"port.py:{line}") for line in port.lines[0]), text


def in_torch(source: str, **values: Any) -> Any:
    return eval(source, {"torch": torch, "nn": torch.nn, "optim": torch.optim, **values})


def in_mindspore(source: str, **values: Any) -> Any:
    names = {"ms": ms, "nn": nn, "ops": ops, "init": init, "experimental": experimental}
    return eval(source, names | values)


RANDOM = np.random.default_rng(0)
START = RANDOM.standard_normal((3, 4)).astype(np.float32)
GRADIENTS = [(RANDOM.standard_normal((3, 4)) * 0.3).astype(np.float32) for _ in range(6)]


def stepped(source: str) -> np.ndarray:
    """Parameters after some steps of an optimizer of either framework."""
    if source.startswith("optim."):
        weight = torch.nn.Parameter(torch.tensor(START))
        there = in_torch(source, p=[weight])
        for gradient in GRADIENTS:
            weight.grad = torch.tensor(gradient)
            there.step()
        return weight.detach().numpy()
    parameter = ms.Parameter(ms.Tensor(START), name="w")
    here = in_mindspore(source, p=[parameter])
    for gradient in GRADIENTS:
        here((ms.Tensor(gradient),))
    return parameter.asnumpy()


@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: f"{row.torch} as {row.naive}")
def test_optimizers(row: Difference) -> None:
    wanted = stepped(row.torch)
    assert np.abs(stepped(row.naive) - wanted).max() > 1e-4
    np.testing.assert_allclose(stepped(row.right), wanted, atol=3e-5)


def rates(source: str) -> np.ndarray:
    """The rates of eight steps, two an epoch."""
    if source.startswith("optim."):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
        schedule, found = in_torch(source, o=optimizer), []
        for _ in range(4):
            found += [optimizer.param_groups[0]["lr"]] * 2
            optimizer.step()
            schedule.step()
        return np.array(found)
    made = in_mindspore(source)
    if not isinstance(made, list):
        made = [float(made(ms.Tensor(step, ms.int32)).asnumpy()) for step in range(8)]
    return np.array(made)


@pytest.mark.parametrize("row", SCHEDULES, ids=lambda row: f"{row.torch} as {row.naive}")
def test_learning_rates(row: Difference) -> None:
    wanted = rates(row.torch)
    assert np.abs(rates(row.naive) - wanted).max() > 1e-3
    np.testing.assert_allclose(rates(row.right), wanted, atol=1e-6)


def moments(value: Any) -> np.ndarray:
    """Mean and spread, and how far the tails reach."""
    if isinstance(value, torch.Tensor):
        drawn = value.detach().numpy()
    else:
        drawn = (value.init_data() if getattr(value, "has_init", False) else value).asnumpy()
    return np.array([drawn.mean(), drawn.std(), np.mean(drawn**4) ** 0.25])


@pytest.mark.parametrize("row", INITIAL_VALUES, ids=lambda row: f"{row.torch} as {row.naive}")
def test_initial_values(row: Difference) -> None:
    wanted = moments(in_torch(row.torch))
    near = {"rtol": 0.15, "atol": 0.02 * max(wanted[1], 1e-3)}
    near["atol"] = max(near["atol"], 0.01 if wanted[1] > 0.01 and "bias" in row.torch else 0.0)
    assert not np.allclose(moments(in_mindspore(row.naive))[1:], wanted[1:], rtol=0.1, atol=1e-6)
    np.testing.assert_allclose(moments(in_mindspore(row.right)), wanted, **near)


def after_a_step(row: Difference, source: str, framework: str) -> np.ndarray:
    """What a layer in training mode has kept, dropped and may train."""
    x = RANDOM.standard_normal(shapes_of(row)[0]).astype(np.float32) + 2
    if framework == "torch":
        layer = in_torch(source).train()
        kept = np.mean(layer(torch.tensor(x)).detach().numpy() == 0)
        means = getattr(layer, "running_mean", None)
        return np.array([kept, 0 if means is None else means.numpy().mean(), len(list(layer.parameters()))])
    cell = in_mindspore(source).set_train()
    trained = len(cell.trainable_params())
    if isinstance(cell, nn.InstanceNorm2d):
        return np.array([0, 0, trained])  # which the CPU has no kernel for
    kept = np.mean(cell(ms.Tensor(x)).asnumpy() == 0)
    means = getattr(cell, "moving_mean", None)
    return np.array([kept, 0 if means is None else means.asnumpy().mean(), trained])


@pytest.mark.parametrize("row", STATE, ids=lambda row: row.naive)
def test_state_of_training(row: Difference) -> None:
    wanted = after_a_step(row, row.torch, "torch")
    naive = after_a_step(row, row.naive, "mindspore")
    assert not np.allclose(naive, wanted, rtol=0.3, atol=0.02)
    np.testing.assert_allclose(after_a_step(row, row.right, "mindspore"), wanted, rtol=0.3, atol=0.02)


@pytest.mark.parametrize("row", DRAWN, ids=lambda row: row.naive)
def test_random_numbers(row: Difference) -> None:
    x = np.ones(4, np.float32)
    drawn = {
        side: [len(set(np.asarray(run(getattr(row, side), x=tensor)).tolist())) for _ in range(20)]
        for side, run, tensor in (
            ("torch", in_torch, torch.tensor(x)),
            ("naive", in_mindspore, ms.Tensor(x)),
            ("right", in_mindspore, ms.Tensor(x)),
        )
    }
    assert set(drawn["torch"]) == set(drawn["right"]) == {4}
    assert min(drawn["naive"]) < 4


def test_what_is_no_longer_so(tmp_path: Path) -> None:
    rows = [Difference(f.torch, f.mindspore, f.mindspore, "", "", f.inputs) for f in FORMER]
    source, port = (
        write_net(tmp_path / "source.py", rows, "torch"),
        write_net(tmp_path / "port.py", rows, "right"),
    )
    report = regraft.verify(source.reference, port.reference, [str(source.size)])
    assert report.passed, report.render()


def ported(row: Difference, side: str) -> str:
    """A file with a net that makes a row's call."""
    names = "xyz"[: len(row.inputs)] or "x"
    call = call_of(getattr(row, side), [*names, *(name for name, _ in given_of(row))])
    given = "".join(f"        self.{name} = ms.Tensor({value})\n" for name, value in given_of(row))
    local = "".join(f"        {name} = self.{name}\n" for name, _ in given_of(row))
    layer = f"        self.layer = {call.layer}\n" if call.layer else ""
    return (
        "from math import inf, nan\nimport mindspore as ms\nimport mindspore.common.initializer as init\n"
        "import mindspore.numpy as mnp\nfrom mindspore import nn, ops\n\n\nclass Net(nn.Cell):\n"
        "    def __init__(self):\n        super().__init__()\n        self.last = nn.Identity()\n"
        f"{given}{layer}\n"
        f"    def construct(self, {', '.join(names)}):\n{local}        return self.last({call.run})\n"
    )


CODED = [row for rows in FAMILIES.values() for row in rows if row.code]


@pytest.mark.parametrize("row", CODED, ids=lambda row: f"{row.code} {row.naive}")
def test_check_finds_what_is_visible_in_the_port_alone(row: Difference, tmp_path: Path) -> None:
    for side, is_found in (("naive", True), ("right", False)):
        folder = tmp_path / side
        folder.mkdir()
        (folder / "port.py").write_text(ported(row, side))
        shapes = [f"{'x'.join(map(str, shape))}" for shape in shapes_of(row)]
        inputs = shapes if row.code == "PT101" else None
        found = regraft.check(f"{folder / 'port.py'}:Net", inputs, ported_from="torch", select=["PT"])
        codes = {f.code for f in found if f.code.startswith("PT")}
        assert (row.code in codes) is is_found, (side, codes)
