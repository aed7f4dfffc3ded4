"""Emitted MindSpore source against torch: built, run in both modes, formatted, loaded strictly."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import OrderedDict
from itertools import count
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault(
    "ONEDNN_MAX_CPU_ISA", "AVX2"
)  # before MindSpore: see MindSpore's slow AVX-512 convolutions
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import torch
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.backends.mindspore_source import emit_source, write
from regraft.backends.source.class_definition import Class, ConstructorArgument
from regraft.backends.source.classes.simplify_arguments import simplify_arguments
from regraft.backends.source.definitions import Definition
from regraft.backends.source.expressions import Literal, NnClass
from regraft.formats.ckpt import read_ckpt
from regraft.ir import (
    Builder,
    Graph,
    Initializer,
    Parameter,
    TensorData,
    TensorType,
    UnsupportedError,
    UsageError,
    Value,
)

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBER = count()


def imported(path: Path):
    """A Python file as a module of a unique name; graph mode looks it up in sys.modules."""
    name = f"emitted_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def example(name: str):
    return imported(EXAMPLES / f"{name}.py")


def run(net, inputs, mode):
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        got = net(*[ms.Tensor(i) for i in inputs])
        return [g.asnumpy() for g in (got if isinstance(got, (tuple, list)) else [got])]
    finally:
        ms.set_context(mode=before)


def shaken(model):
    """Eval mode, with running statistics that are not what a fresh net has."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()


def rewritten(model, inputs, folder, **options):
    graph = regraft.rewrite(regraft.load(model, tuple(inputs))).graph
    write(graph, folder, **options)
    return imported(folder / "model.py")


def assert_same(model, net, inputs, modes=(ms.PYNATIVE_MODE, ms.GRAPH_MODE)):
    with torch.no_grad():
        want = model(*[torch.from_numpy(i) for i in inputs])
    want = [w.numpy() for w in torch.utils._pytree.tree_leaves(want)]
    for mode in modes:
        got = run(net, inputs, mode)
        assert [g.shape for g in got] == [w.shape for w in want]
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(w).max())))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ids(*shape, high=20):
    return np.random.default_rng(0).integers(0, high, shape)


# -- nets as their users write them ------------------------------------------------------------------


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        self.use_shortcut = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.use_shortcut else self.conv(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
            InvertedResidual(8, 12, 2, 6),
            InvertedResidual(12, 12, 1, 6),
            InvertedResidual(12, 16, 2, 6),
            InvertedResidual(16, 16, 1, 6),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 10))

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, features):
        return self.conv(F.relu(self.norm(torch.cat(features, 1))))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers, inputs, growth):
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(inputs + i * growth, growth))

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                conv0=nn.Conv2d(3, 8, 3, padding=1, bias=False),
                block1=DenseBlock(2, 8, 4),
                pool=nn.AvgPool2d(2, 2),
                block2=DenseBlock(4, 16, 4),
                norm=nn.BatchNorm2d(32),
            )
        )
        self.classifier = nn.Linear(32, 5)

    def forward(self, x):
        return self.classifier(F.relu(self.features(x)).mean((2, 3)))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.view(-1, 400))))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
        self.head = nn.Linear(1, 1)

    def forward(self, left, right):
        return self.head((self.branch(left) - self.branch(right)).abs().sum(1, keepdim=True))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.mix(self.embed(tokens))))


class Reserved(nn.Module):
    """Names that nn.Cell uses itself, and a keyword."""

    def __init__(self):
        super().__init__()
        self.phase = nn.Linear(4, 4)
        self.cells = nn.ReLU()
        self.add_module("lambda", nn.Linear(4, 2))

    def forward(self, x):
        return getattr(self, "lambda")(self.cells(self.phase(x)))


class SharedActivation(nn.Module):
    """One ReLU object in two blocks and twice in one Sequential."""

    def __init__(self):
        super().__init__()
        act = nn.ReLU()
        self.first = nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 4), act)
        self.second = nn.Sequential(nn.Linear(4, 3), act)

    def forward(self, x):
        return self.second(self.first(x))


class Leaves(nn.Module):
    """Layers that MindSpore spells in its own way."""

    def __init__(self):
        super().__init__()
        self.conv1d = nn.Conv1d(3, 6, 3, padding=1)
        self.bn1d = nn.BatchNorm1d(6)
        self.prelu = nn.PReLU(6)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm2d(4)
        self.leaky = nn.LeakyReLU(0.1)
        self.conv3d = nn.Conv3d(4, 2, (1, 3, 3), padding=(0, 1, 1))
        self.bn3d = nn.BatchNorm3d(2)
        self.norm = nn.LayerNorm((4, 16))

    def forward(self, x):
        x = self.prelu(self.bn1d(self.conv1d(x)))
        x = self.leaky(self.instance(self.group(self.up(x.unsqueeze(2)))))
        x = self.bn3d(self.conv3d(x.unsqueeze(2)))
        return self.norm(x.flatten(1, 2).repeat(1, 2, 1, 1).flatten(1, 2)[:, :4])


class SharedStem(nn.Module):
    """A constant tensor in forward, and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc.weight.requires_grad_(False)
        self.register_buffer("scale", torch.linspace(1, 2, 4))

    def forward(self, x):
        return self.fc(x) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])


class Outputs(nn.Module):
    """Outputs in another order than they are computed in, a causal mask, a buffer, an unused input."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)).bool())

    def forward(self, tokens, unused):
        x = self.embed(tokens)
        y = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        weights = (x @ x.transpose(-2, -1)).masked_fill(~self.mask, -1e9).softmax(-1)
        return y + weights @ x, weights, tokens


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """ViT-B/16's structure, in small."""

    def __init__(self, width=24, heads=4, depth=3, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*[EncoderBlock(width, heads, 4 * width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(self.dropout(x)))[:, 0])


class Narrow(nn.Module):
    """Three bottlenecks, two of which widen: `examples/resnet.py`'s own, with fewer channels."""

    def __init__(self):
        super().__init__()
        block = example("resnet").Bottleneck

        def widening(inputs, width):
            return nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, 2, bias=False), nn.BatchNorm2d(4 * width))

        self.blocks = nn.Sequential(
            block(3, 4, 2, widening(3, 4)),
            block(16, 4),
            block(16, 5, 2, widening(16, 5)),
            block(20, 6, 2, widening(20, 6)),
        )

    def forward(self, x):
        return self.blocks(x)


class Tagger(nn.Module):
    def __init__(self, words, tags, width=16, hidden=24):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, words):
        states, _ = self.lstm(self.embedding(words))
        return self.head(self.dropout(states))


def small_mobilenet_v2():
    settings = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)]
    return example("mobilenet_v2").MobileNetV2(10, settings)


NETS = {
    "vit": (ViT, [floats(2, 3, 32, 32)], [floats(3, 3, 32, 32)]),
    "bottleneck": (Narrow, [floats(2, 3, 32, 32)], [floats(3, 3, 32, 32)]),
    "outputs": (Outputs, [ids(2, 8), floats(2, 3)], [ids(3, 8), floats(3, 3)]),
    "resnet18": (lambda: example("resnet").resnet18(), [floats(2, 3, 32, 32)], [floats(3, 3, 32, 32)]),
    "transformer": (lambda: example("transformer").transformer(), [ids(2, 16)], [ids(3, 16)]),
    "mobilenet": (MobileNet, [floats(2, 3, 32, 32)], [floats(3, 3, 32, 32)]),
    "mobilenet_v2": (small_mobilenet_v2, [floats(2, 3, 64, 64)], [floats(3, 3, 64, 64)]),
    "unet": (lambda: example("unet").UNet(width=4), [floats(2, 3, 32, 32)], [floats(3, 3, 32, 32)]),
    "densenet": (DenseNet, [floats(2, 3, 16, 16)], [floats(1, 3, 16, 16)]),
    "lenet": (LeNet, [floats(2, 1, 28, 28)], [floats(3, 1, 28, 28)]),
    "siamese": (Siamese, [floats(2, 1, 8, 8), floats(2, 1, 8, 8, seed=1)], None),
    "tied": (Tied, [ids(2, 5)], [ids(3, 5)]),
    "reserved": (Reserved, [floats(2, 4)], [floats(3, 4)]),
    "shared_activation": (SharedActivation, [floats(2, 4)], [floats(3, 4)]),
    "leaves": (Leaves, [floats(2, 3, 8)], [floats(3, 3, 8)]),
    "tagger": (lambda: Tagger(50, 7), [ids(2, 9)], [ids(3, 9)]),
    "frozen": (SharedStem, [floats(2, 4)], [floats(3, 4)]),
}


@pytest.mark.parametrize("name", NETS)
def test_emitted_net_computes_what_torch_computes(name, tmp_path, update_goldens):
    torch.manual_seed(0)
    make, inputs, other = NETS[name]
    model = shaken(make())
    net = rewritten(model, inputs, tmp_path).build()
    assert_same(model, net, inputs)
    if other is not None:  # the batch is not baked in
        assert_same(model, net, other, modes=(ms.PYNATIVE_MODE,))
    assert [p.name for _, p in net.parameters_and_names()] == [n for n, _ in net.parameters_and_names()]
    text = (tmp_path / "model.py").read_text()
    golden = GOLDEN / f"{name}.py"
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_emitted_files_are_clean(command):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--isolated", str(GOLDEN)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_basic_block_is_one_class_with_arguments_for_what_differs():
    text = (GOLDEN / "resnet18.py").read_text()
    assert text.count("class BasicBlock") == 1
    assert "BasicBlock(64, 128, stride=2, downsample=True)" in text


def test_resnet50_and_a_vit_are_as_long_as_an_engineer_makes_them():
    model = example("resnet").resnet50().eval()
    graph = regraft.rewrite(regraft.load(model, (floats(2, 3, 32, 32),))).graph
    text = emit_source(graph)
    assert text.count("\nclass ") <= 3
    assert len(text.splitlines()) <= 150
    assert "*[Bottleneck(1024, 256) for _ in range(5)]" in text
    assert len((GOLDEN / "vit.py").read_text().splitlines()) <= 150


def test_a_factory_says_what_a_trap_is_and_draws_what_the_source_draws(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(3, 64, 3, padding=1)
            self.b = nn.Conv2d(64, 64, 3, padding=1, groups=2)
            self.c = nn.Conv2d(64, 64, 1)
            self.d = nn.Conv2d(64, 8, 5, stride=2)

        def forward(self, x):
            return self.d(self.c(self.b(self.a(x)).relu()).relu())

    model = shaken(Net())
    module = rewritten(model, [floats(2, 3, 16, 16)], tmp_path)
    text = (tmp_path / "model.py").read_text()
    assert text.count("nn.Conv2d(") == 1
    assert 'pad_mode="pad"' in text
    assert "has_bias=True" in text
    assert_same(model, module.build(), [floats(2, 3, 16, 16)])
    fresh = module.build(checkpoint=None)
    for name, fan_in in (("a", 27), ("b", 288), ("c", 64), ("d", 1600)):
        bound = fan_in**-0.5
        weight, bias = (
            np.abs(getattr(fresh, name).parameters_dict()[f"{name}.{p}"].asnumpy())
            for p in ("weight", "bias")
        )
        assert 0.9 * bound < weight.max() <= bound * 1.0001
        assert 0.4 * bound < bias.max() <= bound * 1.0001


def test_an_argument_that_follows_from_a_computed_one_is_computed_after_it():
    """A multiple is found before what it is a multiple of is found to be a fraction."""
    sizes = {"in_channels": (16, 24, 32), "few_channels": (2, 3, 4), "many_channels": (8, 12, 16)}
    arguments = [ConstructorArgument(name, values) for name, values in sizes.items()]
    holes = {Literal(n): arguments[1 + n % 2] for n in range(6)}
    block = Class("Block", [Definition(0, "Block", NnClass("Cell"), "")], list(arguments), holes)
    simplify_arguments(block)
    computed = [f"{a.name} = {a.fill_template()}" for a in block.aliases]
    assert computed == ["few_channels = in_channels // 8", "many_channels = 4 * few_channels"]


def test_the_convolution_default_trap(tmp_path):
    model = shaken(nn.Sequential(nn.Conv2d(120, 240, 4)))
    net = rewritten(model, [floats(2, 120, 12, 12)], tmp_path).build()
    assert run(net, [floats(2, 120, 12, 12)], ms.PYNATIVE_MODE)[0].shape == (2, 240, 9, 9)
    assert_same(model, net, [floats(2, 120, 12, 12)])


def test_a_tied_parameter_is_one_parameter(tmp_path):
    model = shaken(Tied())
    net = rewritten(model, [ids(2, 5)], tmp_path).build()
    assert net.head.weight is net.embed.embedding_table
    assert sorted(read_ckpt(tmp_path / "model.ckpt")) == ["embed.embedding_table", "mix.bias", "mix.weight"]
    rows = json.loads((tmp_path / "renames.json").read_text())["parameters"]
    assert {r["source"]: r["target"] for r in rows}["embed.weight"] == "embed.embedding_table"


def test_reserved_names_are_recorded(tmp_path):
    rewritten(shaken(Reserved()), [floats(2, 4)], tmp_path)
    modules = json.loads((tmp_path / "renames.json").read_text())["modules"]
    assert modules == {"phase": "phase_", "cells": "cells_", "lambda": "lambda_"}


def test_a_frozen_parameter_stays_frozen(tmp_path):
    net = rewritten(shaken(SharedStem()), [floats(2, 4)], tmp_path).build()
    assert [p.name for p in net.trainable_params()] == ["fc.bias"]


def test_weights_too_large_for_a_ckpt(tmp_path, monkeypatch):
    """MindSpore reads a .ckpt as one protobuf message, which ends at 2 GiB."""
    monkeypatch.setattr("regraft.backends.mindspore_source.CKPT_LIMIT", 100)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    module = rewritten(model, [floats(2, 4)], tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "model.ckpt").exists()
    assert module.build()(ms.Tensor(floats(2, 4))).shape == (2, 2)
    with pytest.raises(
        regraft.RegraftError, match=r"E602(.|\n)*at most 2 GiB(.|\n)*checkpoint_format=.safetensors"
    ):
        rewritten(model, [floats(2, 4)], tmp_path / "second", checkpoint_format="ckpt")


def test_safetensors(tmp_path):
    model = shaken(LeNet())
    module = rewritten(model, [floats(2, 1, 28, 28)], tmp_path, checkpoint_format="safetensors")
    assert (tmp_path / "model.safetensors").exists()
    assert_same(model, module.build(), [floats(2, 1, 28, 28)], modes=(ms.PYNATIVE_MODE,))


def test_loading_is_strict_on_both_sides(tmp_path):
    module = rewritten(shaken(Tied()), [ids(2, 5)], tmp_path)
    net = module.build()
    ms.save_checkpoint(
        [{"name": p.name, "data": p} for p in net.get_parameters()][1:], str(tmp_path / "less.ckpt")
    )
    with pytest.raises(ValueError, match=r"only in the net: embed\.embedding_table"):
        module.build(tmp_path / "less.ckpt")
    more = [{"name": p.name, "data": p} for p in net.get_parameters()] + [
        {"name": "odd", "data": ms.Tensor([1.0])}
    ]
    ms.save_checkpoint(more, str(tmp_path / "more.ckpt"))
    with pytest.raises(ValueError, match="only in the checkpoint: odd"):
        module.build(tmp_path / "more.ckpt")
    halves = [
        {"name": p.name, "data": ms.Tensor(p.asnumpy().astype(np.float16))} for p in net.get_parameters()
    ]
    ms.save_checkpoint(halves, str(tmp_path / "half.ckpt"))
    with pytest.raises(
        ValueError, match=r"only in the net: .* Float32.*\n(.*\n)*only in the checkpoint: .* Float16"
    ):
        module.build(tmp_path / "half.ckpt")


def test_without_a_checkpoint_the_initial_distributions_are_the_sources(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(500, 64)
            self.fc = nn.Linear(64, 256)

        def forward(self, tokens):
            return self.fc(self.embed(tokens))

    net = rewritten(shaken(Net()), [ids(2, 5)], tmp_path).build(checkpoint=None)
    table, weight, bias = (p.asnumpy() for p in (net.embed.embedding_table, net.fc.weight, net.fc.bias))
    assert abs(table.std() - 1.0) < 0.02
    assert 0.98 / 8 < np.abs(weight).max() <= 1 / 8
    assert 0.9 / 8 < np.abs(bias).max() <= 1 / 8


def test_tables_are_there_without_a_checkpoint_too(tmp_path):
    net = rewritten(shaken(Outputs()), [ids(2, 8), floats(2, 3)], tmp_path).build(checkpoint=None)
    assert net.mask.asnumpy().sum() == 36


def test_half_precision_layers_keep_their_element_type(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.conv = nn.Conv1d(8, 4, 3)
            self.norms = nn.Sequential(nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.PReLU(4))
            self.head = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))

        def forward(self, tokens):
            return self.head(self.norms(self.conv(self.embed(tokens).transpose(1, 2))))

    model = shaken(Net()).half()
    net = rewritten(model, [ids(2, 5)], tmp_path).build()
    assert {p.dtype for p in net.get_parameters()} == {ms.float16}
    got = run(net, [ids(2, 5)], ms.PYNATIVE_MODE)[0]
    want = model(torch.from_numpy(ids(2, 5))).detach().numpy()
    assert got.dtype == want.dtype == np.float16
    np.testing.assert_allclose(got, want, atol=2e-2)
    kept = rewritten(Net().eval().bfloat16(), [ids(2, 5)], tmp_path / "bfloat16").build()
    assert {p.dtype for p in kept.get_parameters()} == {ms.bfloat16}  # which has no kernels on CPU


def test_dropout_drops_in_training_only(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.25)

        def forward(self, x):
            return F.dropout(self.drop(x), 0.0, self.training) * 1.0

    model = shaken(Net())
    ones = np.ones((100, 100), np.float32)
    net = rewritten(model, [ones], tmp_path).build()
    assert_same(model, net, [ones], modes=(ms.PYNATIVE_MODE,))
    net.set_train(True)
    dropped = run(net, [ones], ms.PYNATIVE_MODE)[0]
    assert abs((dropped == 0).mean() - 0.25) < 0.03


def test_an_sgd_step_goes_through_both_branches_of_a_siamese_net(tmp_path):
    torch.manual_seed(0)
    model = shaken(Siamese())
    left, right = floats(2, 1, 8, 8), floats(2, 1, 8, 8, seed=1)
    net = rewritten(model, [left, right], tmp_path).build()
    gradient = ms.grad(lambda a, b: net(a, b).sum(), grad_position=None, weights=net.trainable_params())
    found = {
        p.name: g.asnumpy()
        for p, g in zip(net.trainable_params(), gradient(ms.Tensor(left), ms.Tensor(right)), strict=True)
    }
    model(torch.from_numpy(left), torch.from_numpy(right)).sum().backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(found[name], parameter.grad.numpy(), rtol=1e-4, atol=1e-5)


def hand_built() -> Graph:
    """conv -> bn -> relu -> flatten -> fc, as a frontend would have lowered it."""
    graph = Graph()
    tree = graph.modules
    root = tree.add("Net")
    layers = {
        n: tree.add(c, root, n) for n, c in (("conv", "Conv2d"), ("bn", "BatchNorm2d"), ("fc", "Linear"))
    }
    top = tree.add_call(root)
    b = Builder(graph, call=top)

    def held(layer, name, array, **more):
        value = graph.add_parameter(
            Parameter(f"{layer}.{name}", f"{layer}.{name}", TensorData.of(array), **more)
        )
        tree.module(layers[layer]).parameters[name] = value.node
        return value

    x = graph.add_input("x", TensorType("float32", ("N", 3, 8, 8)))
    with b.inside(tree.add_call(layers["conv"], top)):
        law = Initializer.of("he_uniform", a=5**0.5, mode="fan_in")
        y = b.op("Conv", x, held("conv", "weight", floats(4, 3, 3, 3), initializer=law), pads=[0, 1, 1, 2])
    with b.inside(tree.add_call(layers["bn"], top)):
        state = [held("bn", n, np.abs(floats(4, seed=i)) + 0.5) for i, n in enumerate(("weight", "bias"))]
        state += [
            held("bn", n, np.abs(floats(4, seed=i)) + 0.5, trainable=False, is_buffer=True)
            for i, n in enumerate(("running_mean", "running_var"), 5)
        ]
        y = b.op("BatchNormalization", y, *state, epsilon=1e-5, momentum=0.9)
    y = b.op("Flatten", b.op("Relu", y), axis=1)
    with b.inside(tree.add_call(layers["fc"], top)):
        y = b.op("regraft.Linear", y, held("fc", "weight", floats(5, 252)), held("fc", "bias", floats(5)))
    graph.outputs.append(("y", y))
    return graph


def test_hand_built_graph(tmp_path):
    graph = hand_built()
    files = write(graph, tmp_path)
    assert [f.name for f in files] == ["model.py", "model.ckpt", "renames.json"]
    net = imported(tmp_path / "model.py").build()
    held = {p.declared: torch.from_numpy(p.data.numpy()) for p in graph.parameters()}
    x = floats(3, 3, 8, 8, seed=9)
    y = F.conv2d(F.pad(torch.from_numpy(x), (1, 2, 0, 1)), held["conv.weight"])
    y = F.batch_norm(y, held["bn.running_mean"], held["bn.running_var"], held["bn.weight"], held["bn.bias"])
    want = F.linear(F.relu(y).flatten(1), held["fc.weight"], held["fc.bias"]).numpy()
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        np.testing.assert_allclose(run(net, [x], mode)[0], want, rtol=1e-5, atol=1e-4)


def test_text_is_the_same_every_time():
    assert emit_source(hand_built()) == emit_source(hand_built())


def test_files_are_not_overwritten_unless_told(tmp_path):
    write(hand_built(), tmp_path)
    with pytest.raises(UsageError, match=r"model\.py"):
        write(hand_built(), tmp_path)
    write(hand_built(), tmp_path, force=True)


def test_every_missing_operator_is_named_before_a_file_is_written(tmp_path):
    graph = hand_built()
    b = Builder(graph)
    name, value = graph.outputs.pop()
    image = b.op("ImageDecoder", b.op("Cast", b.op("Reshape", value, b.constant([-1])), to=2))
    highest = b.op("ReduceMax", b.op("Cast", image, to=1), keepdims=0)
    numbers = [b.constant(n) for n in (8, 16, 8000, 0.0)]
    value = b.op("MelWeightMatrix", *numbers, highest)
    graph.outputs.append((name, Value(value.node)))
    with pytest.raises(UnsupportedError) as caught:
        write(graph, tmp_path / "out")
    assert [m.operator for m in caught.value.missing] == ["ImageDecoder", "MelWeightMatrix"]
    assert not (tmp_path / "out").exists()
