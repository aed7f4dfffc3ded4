"""Emitted PyTorch source against its source: built, run, formatted, loaded strictly, drawn alike."""

import importlib.util
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.backends.torch_source import emit_source, write

GOLDEN = Path(__file__).parent / "golden" / "torch"
ROOT = Path(__file__).parents[2]
NUMBER = count()


def imported(path: Path):
    name = f"emitted_torch_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Drawn(nn.Module):
    """Layers whose distributions are not torch's, a tie, a mask, a table, and a frozen parameter."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        nn.init.normal_(self.first.weight, std=0.02)
        nn.init.normal_(self.second.weight, std=0.02)
        nn.init.zeros_(self.first.bias)
        nn.init.zeros_(self.second.bias)
        self.scale = nn.Parameter(torch.ones(8))
        self.second.weight.requires_grad = False
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.arange(40.0).reshape(5, 8))

    def forward(self, ids):
        x = self.embed(ids) + self.table
        x = F.gelu(self.first(x)) * self.scale
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        weights = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1)
        return self.head(self.second(weights @ x))


IDS = (torch.arange(1, 11).reshape(2, 5),)
DRAWN = "tests/backends/test_torch_source.py:Drawn"
"""Named, not made: what its parameters are drawn from is seen while it is constructed."""


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """References are written into the files, as they were given."""
    monkeypatch.chdir(ROOT)


def models():
    for name, make, size in (
        ("reused_layer", "ReusedLayer", 64),
        ("mobilenet_v2", "MobileNetV2", 64),
        ("unet", "UNet", 32),
    ):
        yield name, f"examples/{name}.py:{make}", size
    yield "drawn", DRAWN, 0


@pytest.mark.parametrize(("name", "reference", "size"), list(models()), ids=[name for name, *_ in models()])
def test_source_is_written_and_equal(name, reference, size, tmp_path, update_goldens):
    x = torch.rand(2, 3, size, size) if size else IDS[0]
    graph = regraft.load(reference, (x,))
    model = graph.origin.model.eval()
    rewritten = regraft.rewrite(graph)
    _, report = regraft.rewrite_file(graph, rewritten, tmp_path / "net", to="torch", emit_tests=True)
    assert report.passed
    text = (tmp_path / "net" / "model.py").read_text()
    golden = GOLDEN / f"{name}.py"
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()
    emitted = imported(tmp_path / "net" / "model.py").build()
    assert not emitted.training
    with torch.no_grad():
        torch.testing.assert_close(emitted(x), model(x), rtol=1e-5, atol=1e-5)
    if name != "reused_layer":  # of which a pass renames the layers
        emitted.load_state_dict(model.state_dict(), strict=True)


def test_state_is_the_sources():
    text = emit_source(regraft.rewrite(regraft.load(DRAWN, IDS)).graph)
    assert "nn.init.normal_(layer.weight, std=0.02)" in text
    assert "self.head.weight = self.embed.weight" in text
    assert 'FROZEN = {"second.weight"}' in text
    assert "padding_idx=0" in text
    assert 'self.register_buffer("table", ' in text


def test_a_net_draws_its_own_weights_and_keeps_its_tables(tmp_path):
    loaded = regraft.load(DRAWN, IDS)
    model, graph = loaded.origin.model, regraft.rewrite(loaded).graph
    write(graph, tmp_path / "net")
    module = imported(tmp_path / "net" / "model.py")
    new = module.build(checkpoint=None)
    assert torch.equal(new.table, model.table)
    assert not torch.equal(new.first.weight, model.first.weight)
    assert abs(float(new.first.weight.detach().std()) - 0.02) < 0.01
    assert new.head.weight is new.embed.weight
    assert [n for n, p in new.named_parameters() if not p.requires_grad] == ["second.weight"]
    wide = module.build(dtype=torch.float64)
    assert wide.first.weight.dtype == torch.float64
    assert np.array_equal(wide.first.weight.float().detach(), model.first.weight.detach())


def test_a_checkpoint_of_another_net_is_refused(tmp_path):
    graph = regraft.rewrite(regraft.load(nn.Linear(3, 4), (torch.zeros(2, 3),))).graph
    write(graph, tmp_path / "a")
    torch.save({"weight": torch.zeros(4, 3), "other": torch.zeros(4)}, tmp_path / "b.pth")
    with pytest.raises(RuntimeError, match="other"):
        imported(tmp_path / "a" / "model.py").build(tmp_path / "b.pth")


def test_the_emitted_module_exports_and_compiles(tmp_path):
    graph = regraft.rewrite(regraft.load(DRAWN, IDS)).graph
    write(graph, tmp_path / "net")
    net = imported(tmp_path / "net" / "model.py").build()
    program = torch.export.export(net, IDS)
    torch.testing.assert_close(program.module()(*IDS), net(*IDS))


class Positions(nn.Module):
    """A table that the source computes anew in every call, and a checkpoint does not have."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.randn(8, 8), persistent=False)

    def forward(self, x):
        places = torch.arange(8.0) + self.shift
        angles = places[:, None] / (3.0 ** (places / 8))
        return self.linear(x) + angles.sin()


def test_constants_are_no_part_of_the_checkpoint(tmp_path):
    torch.manual_seed(0)
    model = Positions().eval()
    x = torch.randn(8, 8)
    graph = regraft.load(model, (x,))
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    module = imported(tmp_path / "net" / "model.py")
    torch.save(model.state_dict(), tmp_path / "own.pth")
    for net in (module.build(), module.build(tmp_path / "own.pth")):
        assert net.state_dict().keys() == model.state_dict().keys()
        torch.testing.assert_close(net(x), model(x))
    assert (tmp_path / "net" / "constants.safetensors").exists()
    assert not torch.equal(module.build(checkpoint=None).linear.weight, model.linear.weight)
