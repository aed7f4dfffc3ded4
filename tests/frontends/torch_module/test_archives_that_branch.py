"""Branches and loops on data of TorchScript archives are If and Loop, and compute what torch computes."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Tuple  # noqa: UP035 - TorchScript reads these

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import regraft
from regraft.ir import UnsupportedError, walk_operators

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates writing such archives; people have them


class Ways(nn.Module):
    """An `if` with `elif`, layers in its branches, and an early return of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        size = x.norm()
        if size > 10:
            x = self.a(x) / size
        elif size > 3:
            x = self.b(x).relu()
        if x.mean() > 0:
            return x * 2
        return x - 1


class Part(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, bool]:  # noqa: UP006
        if x.max() > 1:
            return x * 2, True
        return x, bool(x.min() < -1)


class Values(nn.Module):
    """Lists, tuples, numbers and truth values that branches give, and writes into what a branch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:  # noqa: UP006
        if x.mean() > 0:
            both, pair = [x, x + 1], (x, 2)
        else:
            y = x * 2
            y[0] = 1.0
            both, pair = [y.relu_(), x], (x * 3, 5)
        z, flag = self.part(x)
        if flag and not bool(x[0, 0] > 4):
            z = z + pair[1]
        k = int(x.sum().item())
        if k > 2:
            z = z + k
        return z + pair[0], both


class Newton(nn.Module):
    """A loop that is left early."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.ones_like(x)
        for _ in range(20):
            z = 0.5 * (y + x.abs() / y)
            if (z - y).abs().max() < 1e-3:
                break
            y = z
        return y


class Turns(nn.Module):
    """A layer in a loop within a loop, that count; a place that is data."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, int, Tensor]:  # noqa: UP006
        i, total = 0, torch.zeros_like(x[0])
        while i < x.size(0) and bool(total.abs().sum() < 9):
            total = total + torch.tanh(self.a(x[i]))
            j = 0
            while bool(total.max() > 1.0) and j < 3:
                total = total * 0.7
                j += 1
            i += 1
        scale = 0.5
        while float(x.abs().max()) * scale > 1.0:
            scale = scale * 0.5
        return total / max(i, 1), i, x * scale


class Times(nn.Module):
    """A range whose end is data."""

    def forward(self, x: Tensor) -> Tensor:
        for i in range(int((x > 0).sum())):
            x = torch.sin(x) + i
        return x


NETS: list[tuple[type[nn.Module], int]] = [(Ways, 3), (Values, 5), (Newton, 3), (Turns, 6), (Times, 1)]


@pytest.mark.parametrize(("net", "count"), NETS, ids=lambda value: getattr(value, "__name__", None))
def test_every_way_is_what_torchscript_computes(net: type[nn.Module], count: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    script = torch.jit.script(net().eval())
    torch.jit.save(script, tmp_path / "net.pt")
    x = torch.randn(3, 4)
    graph = regraft.load(tmp_path / "net.pt", [x])
    assert sum(node.op_type in ("If", "Loop") for _, node in walk_operators(graph)) >= count
    assert not any("example" in note for note in graph.origin.notes), graph.origin.notes
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for scale in (1.0, -1.0, 0.1, 5.0, -5.0, 20.0):
        with torch.no_grad():
            want = pytree.tree_leaves(script(x * scale))
        found = session.run(None, {session.get_inputs()[0].name: (x * scale).numpy()})
        for ours, theirs in zip(found, want, strict=True):
            np.testing.assert_allclose(
                np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-5, err_msg=str(scale)
            )


class Number(nn.Module):
    """A whole number that a tensor holds: branches, a loop, arithmetic, a size, places that are written."""

    def forward(self, x: Tensor, n: Tensor):
        k = n.item()
        i = int(n)
        y = x * 2 if k > 1 else x - 1
        z = torch.zeros_like(x)
        for at in range(i):
            z[at] = x[at] * 2 + z[at - 1]
            z[at, 0] = 1.0
        z[:, i][1:] = 5.0
        row = z[i]
        z.add_(1.0)
        turns = 0
        while turns < i * 2:
            y = y + turns
            turns += 1
        values = [x, x * 2, x * 3]
        sizes = (i // 2, abs(i - 3) ** 2, max(i, 2), round(i / 4), torch.tensor([i, 3]))
        return y, z, row, values[i], sizes, x.mean() * x.sum().item(), torch.ones(i, 2), turns


class Selected(nn.Module):
    """A number of elements that is data, and operators on truth values."""

    def forward(self, x: Tensor, n: Tensor):
        at = torch.nonzero((x[:, 0] > 0) | (x[:, 1] > n)).squeeze(1)
        if at.numel() == 0:
            return x.sum(0)
        return x[at].sum(0) + at.size(0)


class Written(nn.Module):
    """Bodies that write into what is around them, by views, within each other, and into an input."""

    def forward(self, x: Tensor, n: Tensor):
        y = x * 1
        row, same = y[1], y
        if x.sum() > 0:
            row.add_(5)
        if x.max() > 1:
            y.mul_(3)
        found = torch.zeros(3, 4)
        for at in range(3):
            if x[at].sum() > 0:
                found[at] = x[at]
                if x[at, 0] > 0.5:
                    found[at, 1] = 9.0
        steps, t = torch.zeros(3, 4), 0
        while t < 3 and bool(steps.sum() < n):
            steps[t] = x[t].abs()
            t += 1
        if x.max() > 1:
            x[0] = 1.0
        z = x
        if x.max() > 2:
            z = x * 2
        return y, same, found, steps, t, torch.relu_(z)


class Lengthens(nn.Module):
    """Lists that a loop on data makes longer, behind what they hold and before more; one of a helper."""

    def grow(self, sums: List[Tensor], x: Tensor, n: int) -> Tensor:  # noqa: UP006
        for _ in range(n):
            x = x * 1.1
            y = x if bool(x.sum() > 3) else -x
            sums.append(y.sum(1))
        return x

    def forward(self, x: Tensor, n: Tensor):
        outs, sums = [x], [x.sum(1)]
        z = self.grow(sums, x, int(n))
        for i in range(int(n)):
            x = torch.sin(x) + i
            outs += [x]
        outs.append(x * 0)
        return torch.cat(outs, -1), torch.stack(outs, 1), torch.stack(sums), len(outs), z


@pytest.mark.parametrize("net", [Number, Selected, Written, Lengthens])
def test_numbers_of_data_and_writes_are_what_torchscript_computes(
    net: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    script = torch.jit.script(net().eval())
    torch.jit.save(script, tmp_path / "net.pt")
    x = torch.randn(3, 4)
    graph = regraft.load(tmp_path / "net.pt", [x.clone(), torch.tensor(2)], dynamic_batch=False)
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    for scale, n in ((1.0, 2), (-1.0, 1), (5.0, 0), (0.1, 2), (-9.0, 2)):
        given = [x * scale, torch.tensor(n)]
        found = session.run(None, dict(zip(names, (g.numpy() for g in given), strict=True)))
        with torch.no_grad():
            want = pytree.tree_leaves(script(*given))
        for ours, theirs in zip(found, want, strict=True):
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-5)


class Grows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: List[Tensor] = []  # noqa: UP006
        while x.abs().max() > 1:
            x = x * 0.5
            found.append(x)
        return torch.stack(found).sum(0)


class Reads(nn.Module):
    """The list that the loop makes longer is read in it."""

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for _ in range(int((x > 0).sum())):
            found.append(found[-1] * 0.5)
        return torch.stack(found)


class Picks(nn.Module):
    """An item is taken of a list that is as long as data say."""

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for i in range(int((x > 0).sum())):
            found.append(x * i)
        return found[1]


class Shapes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:1] if bool(x.sum() > 0) else x


class Writes(nn.Module):
    """Another view of what a branch writes into is read there."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        row = y[0]
        z = row
        if x.sum() > 0:
            y[0] = 0.0
        else:
            row.add_(1.0)
        return y + z


class Doubts(nn.Module):
    """What the branch gives is the input itself, or not."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        z = y
        if x.sum() > 0:
            z = y * 2
        z.add_(1.0)
        return y


class Changes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        table: Dict[str, Tensor] = {"a": x}  # noqa: UP006
        if x.sum() > 0:
            table["a"] = x * 2
        return table["a"]


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.count = 1
        return x * self.count


@pytest.mark.parametrize(
    ("net", "line", "reason"),
    [
        (Grows, 12, "it changes a list or dictionary from outside"),
        (Reads, 9, "it reads a list that it makes longer"),
        (Picks, 11, "expected `torch.stack`, `torch.cat` or `len` of a list that a loop on data made"),
        (Shapes, 8, "its branches give tensors of float32[1, 4] and float32["),
        (Writes, 10, "it writes into a tensor and reads another view of it"),
        (Doubts, 14, "reads a tensor that it wrote into under another name"),
        (Changes, 9, "it changes a list or dictionary from outside"),
        (Remembers, 9, "it assigns the attribute `count`"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_body_that_is_no_function_is_refused_at_its_line(
    net: type[nn.Module], line: int, reason: str, tmp_path: Path
) -> None:
    torch.jit.save(torch.jit.script(net().eval()), tmp_path / "net.pt")
    with pytest.raises(UnsupportedError) as caught:
        regraft.load(tmp_path / "net.pt", [torch.ones(3, 4)])
    assert reason in caught.value.message
    assert caught.value.place.endswith(f".py:{line}"), caught.value.place
