"""Files of torch's dynamo exporter come back as the modules that it traced.

The files beside this are of the nets below, by ``torch.onnx.export(dynamo=True)`` of PyTorch 2.13: as they
stand, and with any batch. Of their metadata, what is not read is gone.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError

FILES = Path(__file__).parent / "torch_exporter_files"


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        return x + self.act(self.norm(self.conv(x)))


class Convolutions(nn.Module):
    """A stem, two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Layer(nn.Module):
    """Attention and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.out = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        y = self.norm(x)
        q, k, v = (f(y).view(*y.shape[:2], 2, 4).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class Tokens(nn.Module):
    """Embeddings, a layer and a head that is tied to the table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([Layer()])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Masked(nn.Module):
    """Attention under a mask, of parts of one product, and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.join, self.out, self.act = nn.Linear(8, 24), nn.Linear(8, 8), nn.SiLU()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        parts = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.join(x).split(8, -1))
        y = nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        return x + self.act(self.out(y.transpose(1, 2).reshape(x.shape)))


class Places(nn.Module):
    """Embeddings of tokens and of their places, two layers under one mask, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.layers = nn.ModuleList([Masked(), Masked()])
        self.register_buffer("order", torch.tensor([5, 4, 3, 2, 1, 0]))
        self.flat, self.head = nn.Flatten(), nn.Linear(48, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        mask = (tokens > 0)[:, None, None, :]
        x = self.table(tokens) + self.places(torch.arange(6)[None])
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.flat(x.index_select(1, self.order)))


class Product(nn.Module):
    """A table, a layer, and a product with the table turned: the exporter stores that matrix too."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(11, 8), nn.Linear(8, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return self.layer(self.table(tokens)) @ self.table.weight.T


class Scaled(nn.Module):
    """A factor a channel, of one value in all of them: the exporter stores it once."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        return x * self.scale.view(-1, 1, 1)


class Groups(nn.Module):
    """Normalisations of groups of channels, which the exporter writes in parts, and scaled sums."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm, self.plain = nn.GroupNorm(2, 4, eps=1e-3), nn.GroupNorm(4, 4, affine=False)
        self.scale1, self.scale2 = Scaled(), Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        x = self.norm(self.first(x))
        x = x + self.scale1(self.plain(x))
        return x + self.scale2(x.relu())


def draw(model: nn.Module) -> nn.Module:
    """Give a model weights that no release of PyTorch changes, some of them equal and some of zeros."""
    for place, (name, tensor) in enumerate(model.state_dict().items()):
        if tensor.dim() > 1 or "var" in name:
            values = torch.sin(torch.arange(tensor.numel()) * 1.7 + place).reshape(tensor.shape)
            tensor.copy_(values.abs() + 0.5 if "var" in name else values * 0.5)
        elif name.endswith(".scale"):
            tensor.fill_(0.25)
        elif name.endswith(".bias"):
            tensor.fill_(0.0 if "layers" in name else 0.1 * (place % 5))
    return model.eval()


RANDOM = torch.Generator().manual_seed(0)
NETS: dict[str, tuple[type[nn.Module], Callable[[int], torch.Tensor]]] = {
    "convolutions": (Convolutions, lambda batch: torch.randn(batch, 3, 9, 9, generator=RANDOM)),
    "tokens": (Tokens, lambda batch: torch.randint(0, 11, (batch, 6), generator=RANDOM)),
    "groups": (Groups, lambda batch: torch.randn(batch, 3, 7, 7, generator=RANDOM)),
    "product": (Product, lambda batch: torch.randint(0, 11, (batch, 6), generator=RANDOM)),
    "places": (Places, lambda batch: torch.randint(0, 11, (batch, 6), generator=RANDOM)),
}


def _built(folder: Path, weights: Path | None = None) -> nn.Module:
    spec = importlib.util.spec_from_file_location(folder.name, folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(weights)


def _run(path: Path, data: torch.Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(path)
    return np.asarray(session.run(None, {session.get_inputs()[0].name: data.numpy()})[0])


def _step(model: nn.Module, data: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    result = model(data)
    result.square().sum().backward()
    return result.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "file",
    [
        "convolutions",
        "convolutions_of_any_batch",
        "tokens",
        "tokens_of_any_batch",
        "product",
        "groups",
        "groups_of_any_batch",
        "places",
        "places_of_any_batch",
        "places_without_optimisations",
    ],
)
def test_a_traced_module_comes_back_with_its_classes_names_values_and_gradients(
    file: str, tmp_path: Path
) -> None:
    """The checkpoint of the original and the file itself load by the map; all else is as in the original."""
    kind, draw_data = NETS[file.partition("_")[0]]
    original, path, out = draw(kind()), FILES / f"{file}.onnx", tmp_path / file
    graph = regraft.load(path)
    written, report = regraft.rewrite_file(graph, regraft.rewrite(graph), out, to="torch")
    assert report is not None
    assert report.passed, written
    torch.save(original.state_dict(), tmp_path / "original.pth")
    renames = out / "renames.json"
    regraft.convert_checkpoint(tmp_path / "original.pth", tmp_path / "of_state.safetensors", renames)
    regraft.convert_checkpoint(path, tmp_path / "of_file.safetensors", renames)
    model = _built(out, tmp_path / "of_state.safetensors")
    own = [type(m).__name__ for m in original.modules() if type(m).__module__ == __name__]
    assert [n for n in (type(m).__name__ for m in model.modules()) if n in own] == own
    classes = [node.name for node in ast.parse(written[0].read_text()).body if isinstance(node, ast.ClassDef)]
    assert sorted(classes) == sorted(set(own))
    state = original.state_dict()
    model.load_state_dict({name: state[name] for name in state if name != "order"})  # it is a constant
    data = draw_data(3 if "any_batch" in file else 2)
    for mode in (False, True):
        (result, gradients), (wanted, of_original) = (_step(m.train(mode), data) for m in (model, original))
        torch.testing.assert_close(result, wanted)
        assert gradients.keys() == of_original.keys()
        torch.testing.assert_close(gradients, of_original, rtol=1e-4, atol=1e-4)
    of_file = _built(out, tmp_path / "of_file.safetensors").eval()
    expected = _run(path, data)
    np.testing.assert_allclose(of_file(data).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_restored_normalisation_is_not_called_equal_in_training() -> None:
    """Its statistics are not in the file, and a note says so."""
    notes = regraft.load(FILES / "convolutions.onnx").origin.notes
    assert any("equal in evaluation, not in training" in note for note in notes)
    assert not any("folded" in note for note in regraft.load(FILES / "tokens.onnx").origin.notes)


def test_what_the_file_does_not_hold_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    """Its rows of a table may not be all, and its indices are a constant: others are no checkpoint of it."""
    graph = regraft.load(FILES / "places.onnx")
    regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", to="torch", verified=False)
    state, renames = draw(Places()).state_dict(), tmp_path / "out/renames.json"
    torch.save(state | {"places.weight": torch.zeros(8, 8)}, tmp_path / "more.pth")
    with pytest.raises(ModelError, match=r"places\.weight") as error:
        regraft.convert_checkpoint(tmp_path / "more.pth", tmp_path / "more.safetensors", renames)
    assert "optimize=False" in error.value.hint
    torch.save(state | {"order": torch.arange(6)}, tmp_path / "other.pth")
    with pytest.raises(ModelError, match=r"`order`: other values"):
        regraft.convert_checkpoint(tmp_path / "other.pth", tmp_path / "other.safetensors", renames)
    torch.save(state, tmp_path / "own.pth")
    regraft.convert_checkpoint(tmp_path / "own.pth", tmp_path / "there.safetensors", renames)
    regraft.convert_checkpoint(tmp_path / "there.safetensors", tmp_path / "back.pth", renames, reverse=True)
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    torch.testing.assert_close(back, dict(state), rtol=0, atol=0)


def test_a_row_without_a_key_is_what_the_file_makes_of_it(tmp_path: Path) -> None:
    """The exporter writes the least number for -inf: such a row is the mean of all values."""
    path = FILES / "places.onnx"
    graph = regraft.load(path)
    regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", to="torch", verified=False)
    data = torch.tensor([[0] * 6, [1, 2, 0, 0, 3, 4]])
    result = _built(tmp_path / "out", tmp_path / "out/model.safetensors")(data)
    np.testing.assert_allclose(result.detach().numpy(), _run(path, data), rtol=1e-4, atol=1e-5)


def _change(text: str, other: str) -> Callable[[str], str]:
    return lambda value: value.replace(text, other)


LIES: dict[str, tuple[str, Callable[[str], str]]] = {
    "no names": ("convolutions", lambda value: "" if "PARAMETER" in value else value),
    "no lines": ("tokens", lambda value: "" if "[target=" in value else value),
    "no scopes": ("tokens", lambda value: "" if value.startswith("[") else value),
    "one name for two parameters": ("tokens", _change("layers.0.key", "layers.0.query")),
    "a name of another parameter": ("convolutions", _change("head.1.weight", "stem.0.weight")),
    "names exchanged": (
        "tokens",
        lambda value: value.replace("query", "@").replace("key", "query").replace("@", "key"),
    ),
    "a name that is no path": ("convolutions", _change("target='stem.0.weight'", "target='../../x y'")),
    "a name of Python": ("convolutions", _change("blocks.0", "__class__.import")),
    "lines that read other parameters": ("tokens", _change("%p_layers_0_query_weight", "%p_head_weight")),
    "lines that read other values": (
        "tokens",
        lambda value: value.replace("%transpose_1,", "%@,").replace("%transpose,", "%transpose_1,"),
    ),
    "another operator": ("tokens", _change("aten.linear.default", "aten.conv2d.default")),
    "attention that is causal": (
        "tokens",
        lambda value: (
            value.replace("), kwargs = {}", ", None, 0.0, True), kwargs = {}")
            if "scaled_dot" in value
            else value
        ),
    ),
    "scales of another module": ("groups", _change("'scale1'", "'scale2'")),
    "groups of another tensor": ("groups", _change("aten.relu", "aten.group_norm")),
    "a large epsilon": ("convolutions", _change("1e-05", "1e30")),
    "numbers without end": ("convolutions", _change("1e-05", "9" * 5000)),
    "a module of a large number": ("convolutions", _change("blocks.1", "blocks.99999999")),
    "scopes of one module": ("tokens", lambda v: "['x']" if v.startswith("[") else v),
}


@pytest.mark.parametrize("lie", LIES)
def test_metadata_that_lie_change_no_value(lie: str, tmp_path: Path) -> None:
    """What nodes compute stands, whatever their metadata state."""
    file, change = LIES[lie]
    proto = onnx.load(FILES / f"{file}.onnx")
    groups = [proto.graph.metadata_props, *(node.metadata_props for node in proto.graph.node)]
    before = proto.SerializeToString()
    for prop in (prop for group in groups for prop in group):
        prop.value = change(prop.value)
    assert proto.SerializeToString() != before
    path, out = tmp_path / "lie.onnx", tmp_path / "out"
    onnx.save(proto, path)
    graph = regraft.load(path)
    regraft.rewrite_file(graph, regraft.rewrite(graph), out, to="torch", verified=False)
    assert len(list(graph.modules)) < 100
    data = NETS[file][1](2)
    expected = _run(path, data)
    result = _built(out).eval()(data)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
