"""What a module keeps of an earlier call: its parameters stay parameters, and what is a constant is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import Graph, Parameter

X = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32))


class Biased(nn.Module):
    """Attention biases are looked up once, unless the module trains."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.biases = nn.Parameter(torch.randn(3))
        self.places: torch.Tensor
        self.register_buffer("places", torch.tensor([0, 1, 2, 1]))
        self.cache: dict[str, torch.Tensor] = {}

    def looked_up(self) -> torch.Tensor:
        if self.training:
            return self.biases[self.places]
        if "cpu" not in self.cache:
            self.cache["cpu"] = self.biases[self.places]
        return self.cache["cpu"]

    def forward(self, x):
        return self.linear(x) + self.looked_up()


class Attribute(Biased):
    """The same in an attribute, which is None at first."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = None

    def looked_up(self) -> torch.Tensor:
        if self.kept is None:
            self.kept = self.biases[self.places]
        return self.kept


class Added(Biased):
    """The same in an attribute that is not there at first, beside a table that nothing computes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = {"one": torch.tensor([1.0, 2.0, 3.0, 4.0])}

    def looked_up(self) -> torch.Tensor:
        if not hasattr(self, "kept"):
            self.kept = self.biases[self.places]
        return self.kept * self.table["one"]


class Unregistered(nn.Module):
    """A layer in a Python list, and a product that was computed when the module was made."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
        self.last = nn.Linear(4, 4)
        self.product = self.last.weight * 2

    def forward(self, x):
        return self.last(self.layers[0](x)) @ self.product


def trained(graph: Graph) -> set[str]:
    """The trainable parameters that some operator reads."""
    read = {v.node for o in graph.operators() for v in graph.operands(o.key) if v is not None}
    nodes = [graph.node(key) for key in read]
    return {n.name for n in nodes if isinstance(n, Parameter) and n.trainable}


@pytest.mark.parametrize("kind", [Biased, Attribute, Added])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_cache_that_a_call_filled_is_computed_from_its_parameter(kind, gradients):
    module = kind().eval()
    with torch.set_grad_enabled(gradients):
        expected = module(X)
    graph = regraft.load(module, (X,))
    assert trained(graph) == {"linear.weight", "linear.bias", "biases"}
    assert graph.origin.notes == ["captured in evaluation mode"]
    assert torch.equal(module(X), expected)
    assert module.cache or module.kept.equal(module.biases[module.places])


def test_a_cache_of_other_values_is_the_models_and_said():
    module = Biased().eval()
    with torch.no_grad():
        module(X)
        module.biases.add_(1)
    graph = regraft.load(module, (X,))
    assert trained(graph) == {"linear.weight", "linear.bias"}
    (note,) = [n for n in graph.origin.notes if "`cache`" in n]
    assert "constant in the graph, as the model itself uses it" in note


class Remembering(nn.Module):
    """Keeps what it made of its first inputs, and a mask of them, as attention of a decoder does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.seen: torch.Tensor | None = None
        self.mask: torch.Tensor | None = None

    def forward(self, x):
        if self.seen is None:
            self.seen = self.linear(x)
            self.mask = torch.ones_like(x) > 0
        return torch.where(self.mask, self.seen, 0.0).sum() + x


class Showing(Remembering):
    """Leaves what it computed for whoever looks, and computes it at each call."""

    def forward(self, x):
        self.seen = self.linear(x)
        return self.seen + x


def test_what_a_first_call_keeps_of_its_inputs_is_said(tmp_path):
    fresh = regraft.load(Remembering().eval(), (X,))
    (note,) = [n for n in fresh.origin.notes if "`seen`" in n]
    assert "the graph computes it in each call" in note
    assert trained(fresh) == {"linear.weight", "linear.bias"}
    assert regraft.load(Showing().eval(), (X,)).origin.notes == ["captured in evaluation mode"]


def test_what_an_earlier_call_kept_of_its_inputs_is_the_models_and_said(tmp_path):
    module = Remembering().eval()
    module(X * 2)
    for given in (X, X * 2):
        graph = regraft.load(module, (given,))
        assert not trained(graph)
        notes = [n for n in graph.origin.notes if "holds what an earlier call computed" in n]
        assert [n.partition(" ")[0] for n in notes] == ["`seen`", "`mask`"]
        regraft.save(graph, tmp_path / "net.onnx", to="onnx", force=True)
        assert regraft.verify(graph, tmp_path / "net.onnx").passed


def test_trained_tensors_that_are_not_registered_are_said():
    graph = regraft.load(Unregistered().eval(), (X,))
    assert trained(graph) == {"last.weight", "last.bias"}
    assert [n.partition(" ")[0] for n in graph.origin.notes if "not registered" in n] == [
        "`layers`",
        "`product`",
    ]


class Counting(nn.BatchNorm1d):
    """A layer that counts its batches itself, as the library's own does."""

    def forward(self, input):  # noqa: A002 - torch's name
        if self.training:
            self.get_buffer("num_batches_tracked").add_(1)
        return nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, self.training, 0.1, self.eps
        )


def test_a_count_of_batches_is_no_difference_in_training():
    assert regraft.load(nn.Sequential(Counting(4)).eval(), (X,)).origin.notes == [
        "captured in evaluation mode"
    ]
