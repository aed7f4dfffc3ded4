"""Models wrapped for training, parameters and operators with a class or a body of somebody else's."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError, RegraftError


class Halves(torch.Tensor):
    """A parameter that holds two plain tensors, as quantised and factored weights do."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return Halves(args[0].whole, args[0].scale)
        plain = torch.utils._pytree.tree_map(
            lambda a: a.whole.float() * a.scale if isinstance(a, Halves) else a, (args, kwargs or {})
        )
        return func(*plain[0], **plain[1])


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_parameters_with_a_class_of_their_own_are_named(kind):
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    held = Halves(torch.ones(4, 6, dtype=torch.int8), torch.ones(4, 1))
    if kind == "parameter":
        net[0].weight = nn.Parameter(held, requires_grad=False)
    else:
        net[0].register_buffer("table", held)
    name = "weight" if kind == "parameter" else "table"
    for given in (["2x6"], None):
        with pytest.raises(ModelError, match=rf"E104 expected plain tensors .*`Halves`.* - at 0.{name}"):
            regraft.load(net, given)


@pytest.fixture(scope="module")
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WRAPPERS = {
    "DataParallel": nn.DataParallel,
    "DistributedDataParallel": nn.parallel.DistributedDataParallel,
    "compiled": torch.compile,
    "compiled DistributedDataParallel": lambda m: torch.compile(nn.parallel.DistributedDataParallel(m)),
    "averaged": torch.optim.swa_utils.AveragedModel,
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.usefixtures("process_group")
def test_a_model_wrapped_for_training_is_read(name):
    wrapped = WRAPPERS[name](nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval())
    graph = regraft.load(wrapped, ["2x6"])
    assert set(wrapped.state_dict()) == {n for ns in graph.parameter_paths().values() for n in ns}
    assert regraft.verify(graph, graph).passed


@pytest.mark.usefixtures("process_group")
def test_a_sharded_model_is_refused_by_name(capfd):
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapped = FullyShardedDataParallel(nn.Linear(6, 4), device_id=torch.device("cpu"))
    with pytest.raises(ModelError, match="E104 expected whole parameters, got a `FullyShardedDataParallel`"):
        regraft.load(wrapped, ["2x6"])
    assert "Expects tensor" not in capfd.readouterr().err


class Wrapper(nn.Module):
    """What a library wraps a model in; its code fails while it is traced."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    @contextlib.contextmanager
    def running(self):
        yield

    def forward(self, x):
        with self.running():
            return self.module(x)


class Unlike(nn.Module):
    def forward(self, x):
        return x + torch.tensor(float(str(x.sum())[7:-1]))


def test_the_user_s_line_is_named_and_the_wrapper():
    with pytest.raises(ModelError, match=r"E10[34] .*test_torch_wrapped.py:\d+") as found:
        regraft.load(Wrapper(Unlike()), ["2x6"])
    assert found.value.place.endswith(f":{Unlike.forward.__code__.co_firstlineno + 1}")
    assert "the module that `Wrapper` wraps: its attribute `module`" in str(found.value)


PLAIN_BODY = torch.library.Library("regraft_tests", "DEF")


def _spikes(x, v, tau):
    found = []
    for step in x.unbind(0):
        v = v + (step - v) / tau
        fired = (v >= 1.0).to(x)
        v = v * (1 - fired)
        found.append(fired)
    return torch.stack(found), v.clone()


for _key in ("AutogradCPU", "CompositeImplicitAutograd"):
    PLAIN_BODY.define(f"spikes_{_key}(Tensor x, Tensor v, float tau) -> (Tensor, Tensor)")
    PLAIN_BODY.impl(f"spikes_{_key}", _spikes, _key)
PLAIN_BODY.impl("spikes_AutogradCPU", _spikes, "CPU")
torch.library.register_fake(
    "regraft_tests::spikes_AutogradCPU", lambda x, v, tau: (torch.empty_like(x), torch.empty_like(v))
)


@torch.library.custom_op("regraft_tests::gate", mutates_args=())
def _gate(x: torch.Tensor, slope: float) -> torch.Tensor:
    return torch.where(x > 0, x * slope, x * 0.1)


_gate.register_fake(lambda x, slope: torch.empty_like(x))


@torch.library.custom_op("regraft_tests::sorted", mutates_args=())
def _sorted(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sort(x.numpy()))


_sorted.register_fake(torch.empty_like)

OPERATORS = {
    "AutogradCPU": lambda x: torch.ops.regraft_tests.spikes_AutogradCPU(x, x[0], 2.0),
    "CompositeImplicitAutograd": lambda x: torch.ops.regraft_tests.spikes_CompositeImplicitAutograd(
        x, x[0], 2.0
    ),
    "custom_op": lambda x: _gate(x, 2.0),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_somebody_else_s_runs_its_body(name, check):
    x = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32) * 3
    check(OPERATORS[name], x, dynamic=False)


def test_an_operator_whose_body_is_not_torch_s_is_refused():
    class Net(nn.Module):
        def forward(self, x):
            return _sorted(x)

    with pytest.raises(RegraftError, match=r"regraft_tests.sorted.default: 1 use"):
        regraft.load(Net(), ["2x6"])
