"""Attention: whole layers with every option, and the function with every kind of mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read
from regraft.ir import ModelError, UnsupportedError

WIDTH, HEADS, BATCH, ROWS, KEYS = 8, 2, 2, 5, 7


def floats(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def hidden(*shape, kind=bool):
    """A mask that hides some keys, never the first; as truth values or as numbers to add."""
    mask = np.random.default_rng(3).random(shape) < 0.4
    mask[..., 0] = False
    return mask if kind is bool else np.where(mask, -np.inf, 0.25).astype(np.float32)


class Module(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Attend(nn.Module):
    """One layer; queries are keys and values too unless a memory is given."""

    def __init__(self, weights=True, average=True, padding=None, mask=None, causal=False, **options):
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)
        for parameter in self.attention.parameters():
            nn.init.normal_(parameter, std=0.3)
        self.weights, self.average, self.causal = weights, average, causal
        self.register_buffer("padding", None if padding is None else torch.from_numpy(padding))
        self.register_buffer("mask", None if mask is None else torch.from_numpy(mask))

    def forward(self, query, key=None, value=None):
        key = query if key is None else key
        return self.attention(
            query,
            key,
            key if value is None else value,
            key_padding_mask=self.padding,
            need_weights=self.weights,
            attn_mask=self.mask,
            average_attn_weights=self.average,
            is_causal=self.causal,
        )


def kinds(graph):
    return [o.qualified_name for o in graph.operators()]


CONFIGURATIONS = {
    "plain": {},
    "dropout": {"dropout": 0.1, "weights": False},
    "no_bias": {"bias": False},
    "each_head": {"average": False},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True, "weights": False},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_layer_is_one_operator(check, name, batch_first):
    module = Attend(batch_first=batch_first, **CONFIGURATIONS[name])
    graph = check(module, floats(BATCH, ROWS, WIDTH))  # axis 0 is dynamic: the length, or the batch
    assert kinds(graph) == ["regraft.MultiheadAttention"]


@pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning")
@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True, "add_zero_attn": True}], ids=["plain", "extra"])
@pytest.mark.parametrize("weights", [False, True])
def test_masks_of_a_layer(check, kind, extra, weights):
    for padding, mask in (
        (None, hidden(ROWS, ROWS, kind=kind)),
        (None, hidden(BATCH * HEADS, ROWS, ROWS, kind=kind)),
        (hidden(BATCH, ROWS), None),
        (hidden(BATCH, ROWS), hidden(ROWS, ROWS, kind=kind)),
        (hidden(BATCH, ROWS, kind=kind), hidden(BATCH * HEADS, ROWS, ROWS)),
    ):
        module = Attend(weights, padding=padding, mask=mask, batch_first=True, **extra)
        check(module, floats(BATCH, ROWS, WIDTH), dynamic=False)


@pytest.fixture
def without_fused_operators():
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(enabled)


@pytest.mark.usefixtures("without_fused_operators")  # they give NaN for a query that sees no key
def test_masks_are_inputs_with_the_batch(check):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True)

        def forward(self, x, padding):
            return self.layer(x, src_key_padding_mask=padding)

    padding = hidden(BATCH, ROWS)
    padding[1] = True  # a sequence that is all padding gives 0 before the projection, not NaN
    check(Masked(), floats(BATCH, ROWS, WIDTH), padding)


@pytest.mark.parametrize(
    "options", [{}, {"kdim": 6, "vdim": 4}, {"kdim": 6, "vdim": 4, "bias": False}], ids=str
)
def test_keys_and_values_of_another_length_and_width(check, options):
    module = Attend(batch_first=True, **options)
    key = floats(BATCH, KEYS, options.get("kdim", WIDTH))
    given = [floats(BATCH, ROWS, WIDTH), key]
    check(module, *given, *([floats(BATCH, KEYS, options["vdim"])] if options else []))


def test_queries_keys_and_values_that_all_differ(check):
    check(Attend(), *(floats(n, BATCH, WIDTH) for n in (ROWS, KEYS, KEYS)), dynamic=False)


def test_without_a_batch(check):
    mask = hidden(ROWS, ROWS)
    check(Attend(mask=mask, padding=hidden(ROWS)), floats(ROWS, WIDTH), dynamic=False)
    check(Attend(weights=False, add_bias_kv=True), floats(ROWS, WIDTH))


def test_a_mask_that_is_called_causal(check):
    after = np.triu(np.ones((ROWS, ROWS), bool), 1)
    for weights in (False, True):
        module = Attend(weights, mask=after, causal=True, batch_first=True)
        check(module, floats(BATCH, ROWS, WIDTH))


def test_lengths_are_not_baked_in():
    module = Attend(weights=False, batch_first=True)
    x = floats(BATCH, ROWS, WIDTH)
    graph = read(module, [("", x)], LoadOptions(dynamic={"query": [0, 1]}))
    assert graph.input_nodes()[0].type.shape == ("N", "query_1", WIDTH)
    assert kinds(graph) == ["regraft.MultiheadAttention"]


def test_a_subclass_with_a_forward_of_its_own_is_read_as_it_is(check):
    class Scaled(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x * 2, x, x)[0] + 1

    class Own(nn.MultiheadAttention):
        def forward(self, x):
            y, _ = F.multi_head_attention_forward(
                *(x, x, x, 8, 2, self.in_proj_weight, self.in_proj_bias, None, None, False, 0.0),
                *(self.out_proj.weight, self.out_proj.bias),
                need_weights=False,
            )
            return y

    assert "regraft.MultiheadAttention" in kinds(check(Scaled(WIDTH, HEADS), floats(ROWS, BATCH, WIDTH)))
    assert "regraft.ScaledDotProductAttention" in kinds(check(Own(WIDTH, HEADS), floats(ROWS, 3, WIDTH)))


def test_the_layer_is_itself_again_after_a_capture():
    forward = nn.MultiheadAttention.forward
    with pytest.raises(ModelError, match="E103"):
        read(Attend(), [("", floats(ROWS, BATCH, WIDTH + 1))], LoadOptions())
    assert nn.MultiheadAttention.forward is forward


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer(check, norm_first):
    class Translate(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.transformer = nn.Transformer(
                16, 4, 1, 1, 24, batch_first=True, norm_first=norm_first, activation="gelu"
            )
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(ROWS))

        def forward(self, source, target):
            return self.transformer(source, target, tgt_mask=self.mask, tgt_is_causal=True)

    graph = check(Translate(), floats(BATCH, KEYS, 16), floats(BATCH, ROWS, 16))
    assert kinds(graph).count("regraft.MultiheadAttention") == 3


@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.parametrize(
    "shape", [(5, 7), (1, 7), (2, 1, 5, 7), (2, 3, 1, 7), (2, 3, 5, 7), (3, 5, 7)], ids=str
)
def test_masks_of_the_function(check, shape, kind):
    mask = np.random.default_rng(0).random(shape) < 0.6
    mask[..., 0, :] = False  # rows without any key give 0
    mask = mask if kind is bool else np.where(mask, 0.5, -np.inf).astype(np.float32)
    check(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, torch.from_numpy(mask)),
        floats(2, 3, 5, 4),
        floats(2, 3, 7, 4),
        dynamic=False,
    )


def test_lengths_of_the_function_are_symbolic(check):
    check(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), floats(5, 4))


@pytest.mark.parametrize("kind", [bool, float])
def test_a_mask_that_is_an_input_may_hide_whole_rows(check, kind):
    mask = np.random.default_rng(0).random((2, 1, 5, 7)) < 0.5
    mask[0, 0, 2] = False
    mask = mask if kind is bool else np.where(mask, 0.5, -np.inf).astype(np.float32)
    q, k = floats(2, 3, 5, 4), floats(2, 3, 7, 4)
    check(lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m), q, k, mask)


@pytest.mark.parametrize(
    "options",
    [{"scale": 0.3}, {"is_causal": True}, {"enable_gqa": True}, {"is_causal": True, "scale": 2.0}],
    ids=str,
)
def test_options_of_the_function(check, options):
    heads = 3 if "enable_gqa" in options else 6
    check(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, **options),
        floats(2, 6, 5, 4),
        floats(2, heads, 7, 4),
    )


def test_a_layers_ratio_is_kept():
    layer = Attend(weights=False, dropout=0.25)
    (operator,) = read(layer, [("", floats(ROWS, BATCH, WIDTH))], LoadOptions()).operators()
    assert operator.float("dropout") == 0.25


def test_attention_that_drops_in_evaluation_is_refused_as_random():
    dropped = Module(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5))
    with pytest.raises(UnsupportedError, match=r"(?s)two runs of the model itself differ.*if self.training"):
        read(dropped, [("", floats(ROWS, BATCH, WIDTH))], LoadOptions())


@pytest.mark.parametrize("extra", ["add_bias_kv", "add_zero_attn"])
def test_a_key_of_the_layers_own_behind_is_causal_is_refused(extra):
    """torch drops the mask for its kernel's own, which hides what was added after the last key."""
    mask = np.triu(np.ones((ROWS, ROWS), bool), 1)
    model = Attend(weights=False, mask=mask, causal=True, batch_first=True, **{extra: True})
    with pytest.raises(UnsupportedError, match=f"{extra}.*hides that key"):
        read(model, [("", floats(BATCH, ROWS, WIDTH))], LoadOptions())


class Flexible(nn.Module):
    """`flex_attention` by a function of scores, a mask, or both; grouped keys."""

    def __init__(self, score: bool, mask: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(WIDTH, 2 * WIDTH)
        self.score, self.mask = score, mask
        self.register_buffer("slopes", torch.tensor([0.5, 0.25]))
        self.register_buffer("document", torch.tensor([0, 0, 1, 1, 2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        slopes, document = self.slopes, self.document
        query, key, value = self.layer(x).split((WIDTH, WIDTH // 2, WIDTH // 2), -1)
        query = query.view(batch, rows, HEADS, -1).transpose(1, 2)
        key, value = key.unsqueeze(1), value.unsqueeze(1)

        def bent(score, b, head, q, k):
            return torch.tanh(score / 5) * 5 - slopes[head] * (q - k) + 0.1 * b

        def visible(b, head, q, k):
            return (document[q] == document[k]) & (q >= k) & (k != 2)  # query 2 sees nothing

        found = flex_attention(
            query,
            key,
            value,
            score_mod=bent if self.score else None,
            block_mask=create_block_mask(visible, None, None, rows, rows, "cpu") if self.mask else None,
            enable_gqa=True,
        )
        return found.transpose(1, 2).reshape(batch, rows, WIDTH)


@pytest.mark.parametrize(("score", "mask"), [(True, True), (False, True), (True, False)])
def test_flex_attention(check, score: bool, mask: bool) -> None:
    check(Flexible(score, mask), floats(BATCH, ROWS, WIDTH))
