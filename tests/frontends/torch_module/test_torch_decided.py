"""Branches on data that torch.export refuses, and views by strides in a memory of symbolic size."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError, RegraftError


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Global(nn.Module):
    """Attends globally only where a mask says 2, as Longformer does."""

    def forward(self, x, mask):
        if (mask > 1).flatten().any().item():
            x = x * 2
        return x.masked_fill(mask == 0, 0.0)


def test_a_branch_on_data_goes_the_example_s_way_and_is_said(check):
    graph = check(Global(), floats(2, 5), np.array([[1, 1, 1, 1, 0]] * 2))
    said = [
        n for n in graph.origin.notes if re.match(r"the branch on data at \S*test_torch_decided.py:\d+ is", n)
    ]
    assert len(said) == 1
    assert "is false" in said[0]


class Halving(nn.Module):
    """Halves a step until an error is small, as a solver with an adaptive step size does."""

    def __init__(self, step=lambda step: step / 2):
        super().__init__()
        self.step = step

    def forward(self, x):
        step = x.abs().max()
        while step > 0.1:
            step = self.step(step)
        return x * step


def test_a_loop_on_data_has_the_example_s_turns_and_is_said_once():
    graph = regraft.load(Halving(), (torch.tensor([[1.0, -0.5]]),))
    (said,) = graph.origin.assumed
    assert re.match(r"the loop at \S*test_torch_decided.py:\d+ runs as often as for the example", said)


def test_a_loop_on_data_is_named_before_an_operator_in_it():
    further = Halving(lambda step: torch.nextafter(step / 2, step))
    with pytest.raises(ModelError, match="E104 the model repeats a loop as often as data say") as refused:
        regraft.load(further, (torch.tensor([[1.0, -0.5]]),))
    assert "method='rk4'" in str(refused.value.hint)


class Normalised(nn.Module):
    """Checks the deviations that it divides by, which are Python numbers, as torchvision's transform does."""

    def forward(self, x):
        deviations = torch.as_tensor([0.5, 0.25, 2.0], dtype=x.dtype)
        if (deviations == 0).any():
            raise ValueError("a deviation is zero")
        return x / deviations


def test_a_branch_on_constants_alone_is_no_assumption(check, caplog):
    graph = check(Normalised(), floats(2, 3))
    assert graph.origin.notes == ["captured in evaluation mode"]
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


class OverListedAxes(nn.Module):
    """Takes means over axes that a constant lists, as losses do for images of any number of axes."""

    def forward(self, x):
        axes = torch.arange(1, x.dim()).tolist()
        return x.mean(dim=axes) + len(axes)


def test_numbers_that_constants_hold_are_known(check):
    graph = check(OverListedAxes(), floats(2, 3, 4))
    assert graph.origin.notes == ["captured in evaluation mode"]


def test_numbers_that_are_drawn_are_not_decided():
    class Repeated(nn.Module):
        def forward(self, x):
            return x.repeat(1, *torch.randint(1, 9, (1,)).tolist())

    with pytest.raises(RegraftError):
        regraft.load(Repeated(), (torch.ones(2, 3),))


class Confident(nn.Module):
    """Looks at the tail only where a layer, with its weights and a buffer, sends some row there."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 7, bias=False)
        self.register_buffer("first", torch.tensor([5.0, 5.0]))

    def forward(self, x):
        best = torch.argmax(self.head(x), dim=1)
        if (best >= self.first.sum() / 2).any():
            return best + 7
        return best


@pytest.mark.parametrize("seed", range(4))
def test_the_example_s_way_is_that_of_the_model_s_own_weights(seed):
    torch.manual_seed(seed)
    model = Confident().eval()
    batches = [torch.randn(6, 8) for _ in range(40)]
    ways = {bool((model(x) >= 7).all()): x for x in batches}
    for takes_tail, x in ways.items():
        graph = regraft.load(model, (x,))
        assert ("Add" in {node.op_type for node in graph.operators()}) is takes_tail


def test_inputs_that_take_the_other_branch_contradict_it(capfd):
    class Signed(nn.Module):
        def forward(self, x):
            return x if (x.sum() > 0).item() else -2 * x

    graph = regraft.load(Signed(), (torch.ones(2, 3),))
    assert "def forward" not in capfd.readouterr().err  # torch prints what it refuses
    report = regraft.verify(graph, graph)
    assert not report.passed
    assert {row.case for row in report.outputs if not row.passed} >= {"N=2, draw 2"}  # all below zero


class Padded(nn.Module):
    """Pads by sizes that its buffers say, as EnCodec does."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 5, stride=2)
        self.register_buffer("stride", torch.tensor(2), persistent=False)
        self.register_buffer("kernel", torch.tensor(5), persistent=False)

    def forward(self, x):
        total = self.kernel - self.stride
        frames = torch.ceil((x.shape[-1] - self.kernel + total) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - total - x.shape[-1]
        if extra > 0:
            x = nn.functional.pad(x, (0, extra))
        return self.conv(nn.functional.pad(x, (total, extra), "reflect"))


def test_sizes_made_of_buffers_are_known(check):
    graph = check(Padded(), floats(2, 2, 19))
    assert not [n for n in graph.origin.notes if "branch" in n]


def test_a_buffer_that_the_model_writes_is_no_constant():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.tensor(1))

        def forward(self, x):
            self.calls += 1
            for _ in range(self.calls.item()):
                x = x * 2
            return x

    with pytest.raises(ModelError, match="data-dependent"):
        regraft.load(Counted(), (torch.ones(2, 7),))


class Skipping(nn.Module):
    """Needs no mask where nothing is masked, and fails on one: a library's helper makes it while traced."""

    def forward(self, x, seen):
        traced = torch.compiler.is_exporting() or isinstance(x, torch._subclasses.FakeTensor)
        if traced or not bool(seen.all()):
            return x[:, :2] + seen[:, None].expand(-1, 5, -1)
        return x[:, :2]


def test_code_that_asks_whether_it_is_traced():
    graph = regraft.load(Skipping(), (torch.randn(2, 5, 3), torch.ones(2, 3, dtype=torch.bool)))
    assert [n for n in graph.origin.notes if "branch on data" in n]
    assert not [n for n in graph.origin.notes if "static" in n]
    assert torch.compiler.is_exporting() is False


def test_a_number_is_not_decided():
    class Repeated(nn.Module):
        def forward(self, x, n):
            for _ in range(n.max().item()):
                x = x * 2
            return x

    with pytest.raises(ModelError, match="data-dependent"):
        regraft.load(Repeated(), (torch.ones(2, 3), torch.tensor([1, 2])))


def sliding(x):
    """Longformer's overlapping windows of a tensor whose memory has the batch on its second axis."""
    rows = (x.transpose(0, 1) * 1.0).contiguous().view(16, x.shape[0], 4, 2)
    rows = rows.transpose(0, 1).transpose(1, 2).reshape(-1, 16, 2)
    chunks = rows.view(rows.shape[0], 4, 4, 2)
    strides = list(chunks.stride())
    strides[1] //= 2
    return chunks.as_strided((chunks.shape[0], 7, 4, 2), strides)


VIEWS = {
    "windows": sliding,
    "windows of the last axis": lambda x: x.as_strided(
        (x.shape[0], 16, 3, 4), (x.stride(0), x.stride(1), 2, 1)
    ),
    "a window that goes on in the next row": lambda x: (x + 1).as_strided(
        (x.shape[0], 15, 12), (x.stride(0), 8, 1)
    ),
    "repeated": lambda x: (x + 1).as_strided((x.shape[0], 7, 16, 8), (x.stride(0), 0, 8, 1)),
    "fewer": lambda x: x.as_strided((x.shape[0], 9, 8), (x.stride(0), 8, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_by_strides(check, name):
    check(VIEWS[name], floats(2, 16, 8))


def test_a_view_with_an_offset(check):
    check(lambda x: x.as_strided((2, 3, 4), (64, 9, 2), 3), floats(2, 16, 8), dynamic=False)


class Experts(nn.ModuleDict):
    """Sends each row to the expert that its scores prefer, as Switch Transformers does."""

    def __init__(self):
        super().__init__({f"expert_{i}": nn.Linear(4, 4) for i in range(3)})

    def forward(self, x):
        chosen = nn.functional.one_hot(x[:, :3].argmax(-1), num_classes=3).permute(1, 0)
        y = torch.zeros_like(x)
        for at in torch.greater(chosen.sum(-1), 0).nonzero():
            (rows,) = torch.where(chosen[at].squeeze(0))
            y.index_add_(0, rows, self[f"expert_{at[0]}"](x[rows]))
        return y


def test_a_loop_over_the_places_of_nonzero_runs_for_every_place(check):
    graph = check(Experts(), floats(2, 4))
    said = [n for n in graph.origin.notes if n.startswith("the loop at ")]
    assert len(said) == 1
    assert "for all 3" in said[0]


class Groups(nn.Module):
    """Sorts rows by expert and splits them by how many each has, as JetMoE does."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x):
        expert = x[:, :3].argmax(-1)
        sizes = nn.functional.one_hot(expert, num_classes=3).sum(0).tolist()
        order = expert.sort().indices
        parts = x[order].split(sizes)
        y = torch.cat([nn.functional.linear(part, self.weight[i]) for i, part in enumerate(parts)])
        return torch.zeros_like(x).index_add(0, order, y)


def test_sizes_that_data_determine(check):
    check(Groups(), floats(2, 4))


class Cast(nn.Module):
    """Casts a layer in its forward, which changes nothing."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 2)

    def forward(self, x):
        self.router = self.router.to(torch.float32)
        return self.router(x)


def test_a_layer_cast_to_the_type_that_it_has(check):
    module = Cast()
    router = module.router
    check(module, floats(2, 4))
    assert module.router is router
    assert nn.Module.to.__module__ == "torch.nn.modules.module"


class Mixed(nn.Module):
    """Products in a lower type, sums in float32, as autocast takes them, within a forward."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.body = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 5))
        self.head = nn.LayerNorm(5)

    def forward(self, x):
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.head(self.body(x)) + x[:, :1, :5]
            y = y @ y.transpose(1, 2)
            z = torch.cat([y.softmax(-1), x[:, :, :4]], 1)
            with torch.autocast("cpu", enabled=False):
                z = z.float() @ z.float().transpose(1, 2)
        return y.float(), z


def test_autocast_within_a_forward(check):
    graph = check(Mixed(torch.float16).eval(), floats(2, 3, 6), atol=5e-3, rtol=5e-3)
    products = [o for o in graph.operators() if o.op_type in ("Conv", "Linear", "MatMul")]
    lower = [o for o in products if graph.node(o.key).types[0].dtype == "float16"]
    assert (len(lower), len(products)) == (3, 4)


def test_a_compiled_module_is_looked_at_in_training_mode():
    net = nn.Sequential(nn.Linear(4, 3), Normalised())
    net[0] = torch.compile(net[0])
    graph = regraft.load(torch.compile(nn.Sequential(net, nn.Dropout(0.5))), (torch.ones(2, 4),))
    assert graph.origin.notes == ["captured in evaluation mode"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.max().item(),
        lambda x: x * sum(x[0].tolist()),
        lambda x: x * math.sqrt(x.abs().sum().item()),
        lambda x: x[:, : int(x.sum().item())],
    ],
    ids=["multiplied", "listed", "given to math", "a size"],
)
def test_a_number_that_python_takes_out_of_a_tensor_is_named_as_such(function):
    class Taken(nn.Module):
        def forward(self, x):
            return function(x)

    with pytest.raises(RegraftError, match=r"(?s)`.item\(\)`.*leave it a tensor: `x.max\(\)`") as refused:
        regraft.load(Taken(), (torch.rand(2, 5),))
    assert "test_torch_decided.py" in str(refused.value)
    assert not [word for word in ("zuf", "GuardOn", "Sym") if word in str(refused.value)]


def test_numpy_that_torch_cannot_follow_is_named_as_such():
    class Sorted(nn.Module):
        def forward(self, x):
            return x * torch.from_numpy(np.lexsort(x.numpy()))

    with pytest.raises(ModelError, match=r"E104 .*follow NumPy"):
        regraft.load(Sorted(), (torch.rand(2, 5),))


class InNumPy(nn.Module):
    """Takes frequencies and means in NumPy, as forecasting models do."""

    def forward(self, x):
        strongest = torch.topk(x.abs().mean(0), 2)[1].detach().cpu().numpy()
        means = np.exp(x.detach().numpy()).mean(-1, keepdims=True) / 2
        return x[:, strongest], torch.from_numpy(means) * x


def test_what_numpy_computes_is_followed(check):
    graph = check(InNumPy(), floats(2, 8))
    assert graph.origin.notes == ["captured in evaluation mode"]


STEPS = {
    "the end of a range": lambda x: x * sum(range(int(_steps()))),
    "the bound of an arange": lambda x: torch.arange(0, _steps()) * x.sum(),
    "a list": lambda x: x.mean(dim=torch.arange(1, x.ndim).tolist(), keepdim=True),
    "axes": lambda x: x.permute(*torch.cat((torch.tensor([1, 0]), torch.arange(2, x.ndim)))),
    "a count": lambda x: x * int(torch.tensor([[1, 0, 1], [0, 1, 1]]).sum(1).max()),
    "what is written into a constant": lambda x: x * _written(torch.ones(3)),
}


def _steps() -> float:
    """The number of steps of torchdiffeq's solvers of a fixed step."""
    times = torch.linspace(0, 1, 4)
    return torch.ceil((times[-1] - times[0]) / 0.1 + 1).item()


def _written(table: torch.Tensor) -> int:
    table[1:].view(2).mul_(3)
    return int(table.sum())


@pytest.mark.parametrize("name", STEPS)
def test_a_number_that_no_input_leads_to_is_known(name, check):
    graph = check(STEPS[name], floats(2, 3, 4), dynamic=name != "axes")
    assert graph.origin.notes[:1] == ["captured in evaluation mode"]
    assert not [n for n in graph.origin.notes if "branch" in n]


def test_a_constant_that_data_are_written_into_is_no_number():
    class Tainted(nn.Module):
        def forward(self, x):
            table = torch.zeros(5)
            view = table[1:]
            view[0] = x.sum()
            for _ in range(int(table.max())):
                x = x + 1
            return x

    with pytest.raises(ModelError, match="data-dependent"):
        regraft.load(Tainted(), (torch.ones(2, 3),))


class Lengths(nn.Module):
    """Makes a mask as long as the longest sequence, as torchaudio's Conformer does: its shape must fit."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x, n):
        return x * (torch.arange(self.count(n))[None] < n[:, None])[..., None]


@pytest.mark.parametrize(
    "count",
    [lambda n: int(n.max().item()), lambda n: int(n.max())],
    ids=["an item", "a tensor"],
)
def test_a_size_that_data_determine_and_shapes_fix(count):
    graph = regraft.load(Lengths(count), (torch.randn(2, 6, 3), torch.tensor([6, 4])), dynamic_batch=False)
    said = [
        n for n in graph.origin.assumed if re.match(r"the number that \S*test_torch_decided.py:\d+ takes", n)
    ]
    assert len(said) == 1
    assert regraft.verify(graph, graph).passed


class Counted(nn.Module):
    """Computes with a number of data, and cuts by it."""

    def forward(self, x, n):
        return x * int(n.max()) + int((x.abs().max() * 3).item()), torch.arange(int(n.max()) + 1)


@pytest.mark.parametrize(
    "net", [Counted(), Lengths(lambda n: int((n * 0.99).max()) + 1)], ids=["used", "a size"]
)
def test_a_number_that_stays_data_is_followed(net):
    graph = regraft.load(net, (torch.randn(2, 6, 3), torch.tensor([6, 4])))
    assert graph.origin.notes == ["captured in evaluation mode"]
    assert regraft.verify(graph, graph).passed


class Kernel(nn.Module):
    """Chooses a formula by whether its inputs are equal, as GPyTorch's kernels do."""

    def forward(self, x, y):
        same = torch.zeros(x.shape[0], x.shape[0])
        z = same if torch.equal(x, x) else same + 1
        return z.sum() + (y if torch.equal(x, y) else (x[:, None] - y[None]).pow(2).sum(-1))


@pytest.mark.parametrize("rows", [3, 4])
def test_whether_tensors_are_equal_is_a_branch_on_data_only_where_they_may_be(rows):
    graph = regraft.load(Kernel(), (torch.randn(3, 2), torch.randn(rows, 2)), dynamic_batch=False)
    assert len([n for n in graph.origin.notes if "branch on data" in n]) == (rows == 3)
    assert rows == 3 or regraft.verify(graph, graph).passed  # some draws are equal


class Masked(nn.Conv2d):
    """Masks its weight by assignment, as PixelCNN and CompressAI do."""

    def forward(self, x):
        self.weight.data = self.weight.data * torch.tensor([0.0, 1, 0])
        return super().forward(x)


def whole(layer: str) -> nn.Module:
    made = {
        "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        "masked weight": lambda: nn.Sequential(nn.Unflatten(0, (-1, 1)), Masked(1, 2, 3, padding=1)),
        "lstm": lambda: nn.LSTM(4, 4, batch_first=True),
    }
    return nn.Sequential(OverListedAxesKept(), made[layer]())


class OverListedAxesKept(nn.Module):
    """Centres on a mean, and branches on data: both need values beside the fake ones."""

    def forward(self, x):
        return x if x.sum() > 1e6 else x - x.mean(dim=torch.arange(1, x.dim()).tolist(), keepdim=True)


@pytest.mark.parametrize("layer", ["attention", "masked weight", "lstm"])
def test_a_branch_on_data_beside_other_layers(layer):
    graph = regraft.load(whole(layer), (torch.rand(2, 3, 4),), dynamic_batch=False)
    assert [n for n in graph.origin.notes if "branch on data" in n]
    assert regraft.verify(graph, graph).passed


def test_the_cause_that_remains_is_named_and_not_the_first():
    class Both(nn.Module):
        def forward(self, x, n):
            if n.max() > 3:
                x = x * 2
            for _ in range(int(n.max())):
                x = x + 1
            return x

    with pytest.raises(ModelError, match="data-dependent") as found:
        regraft.load(Both(), (torch.ones(2, 3), torch.tensor([4, 2])))
    line = Both.forward.__code__.co_firstlineno + 3
    assert found.value.place.endswith(f"test_torch_decided.py:{line}")


def test_places_of_numbers_that_have_no_form():
    class Scaled(nn.Module):
        def forward(self, x):
            return torch.arange(4).mul(x.max().item())

    with pytest.raises(RegraftError, match=r"`.item\(\)`.*test_torch_decided.py:\d+"):
        regraft.load(Scaled(), (torch.rand(2, 5),))
