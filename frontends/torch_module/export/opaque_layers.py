"""Layers that a capture keeps whole: one operator each in place of the many that their forward runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from .patches import patched

if TYPE_CHECKING:
    import torch

_SCHEMA = (
    "multihead_attention(Tensor query, Tensor key, Tensor value, Tensor out_weight, Tensor? out_bias, "
    "Tensor? in_weight, Tensor? in_bias, Tensor? q_weight, Tensor? k_weight, Tensor? v_weight, "
    "Tensor? bias_k, Tensor? bias_v, Tensor? key_padding_mask, Tensor? attn_mask, int num_heads, "
    "bool batch_first, float dropout, bool add_zero_attn, bool is_causal, bool need_weights, "
    "bool average_weights) -> (Tensor, Tensor)"
)

_CTC_SCHEMA = (
    "ctc_losses(Tensor log_probs, Tensor labels, Tensor input_lengths, Tensor target_lengths, int blank, "
    "bool zero_infinity) -> Tensor"
)


@contextmanager
def layers_kept_whole() -> Iterator[None]:
    """Keep `nn.MultiheadAttention` as one operator inside, except subclasses with their own forward.

    torch's Transformer compares masks with the causal one to find a hint, which no export can do; a mask
    means the same without.
    """
    _define()

    def hinted(_mask: object, is_causal: bool | None = None, _size: object = None) -> bool:
        return bool(is_causal)

    with (
        patched("torch.nn:MultiheadAttention", forward=_attend),
        patched("torch.nn.modules.transformer", _detect_is_causal_mask=hinted),
    ):
        yield


def _attend(
    self: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    need_weights: bool = True,
    attn_mask: torch.Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Call `nn.MultiheadAttention.forward` as one operator."""
    import torch

    y, weights = torch.ops.regraft.multihead_attention(
        query,
        key,
        value,
        self.out_proj.weight,
        self.out_proj.bias,
        self.in_proj_weight,
        self.in_proj_bias,
        self.q_proj_weight,
        self.k_proj_weight,
        self.v_proj_weight,
        self.bias_k,
        self.bias_v,
        key_padding_mask,
        attn_mask,
        self.num_heads,
        self.batch_first,
        self.dropout,
        self.add_zero_attn,
        is_causal,
        need_weights,
        average_attn_weights,
    )
    return y, weights if need_weights else None


@cache
def _define() -> object:
    """Define the operators, once in a process; the library lives as long as it is held."""
    import torch

    library = torch.library.Library("regraft", "FRAGMENT")
    library.define(_SCHEMA)
    torch.library.register_fake("regraft::multihead_attention", _shapes, lib=library)
    library.impl("multihead_attention", _attention, "CPU")  # values beside the fake ones
    library.define(_CTC_SCHEMA)
    torch.library.register_fake("regraft::ctc_losses", _shape_of_losses, lib=library)
    library.impl("ctc_losses", _losses, "CPU")
    return library


def _shapes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor | None,
    in_weight: torch.Tensor | None,
    in_bias: torch.Tensor | None,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    v_weight: torch.Tensor | None,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    key_padding_mask: torch.Tensor | None,
    attn_mask: torch.Tensor | None,
    num_heads: int,
    batch_first: bool,
    dropout: float,
    add_zero_attn: bool,
    is_causal: bool,
    need_weights: bool,
    average_weights: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs without values, where there is more than shapes to check by torch's own function."""
    weights_of = {"q": q_weight, "k": k_weight, "v": v_weight} if in_weight is None else {"in": in_weight}
    odd = (key_padding_mask, attn_mask, bias_k, bias_v, add_zero_attn or None, is_causal or None)
    if all(o is None for o in odd) and _fits(
        query, key, value, weights_of, out_weight, num_heads, batch_first
    ):
        y = query.new_empty(query.shape)
        if not need_weights:
            return y, y.new_empty(0)
        length = 0 if query.dim() == 2 else 1 if batch_first else 0
        batch = [query.shape[1 - length]] if query.dim() == 3 else []
        heads = [] if average_weights else [num_heads]
        return y, y.new_empty([*batch, *heads, query.shape[length], key.shape[length]])
    return _attention(
        *(query, key, value, out_weight, out_bias, in_weight, in_bias, q_weight, k_weight, v_weight),
        *(bias_k, bias_v, key_padding_mask, attn_mask, num_heads, batch_first, dropout, add_zero_attn),
        *(is_causal, need_weights, average_weights),
    )


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor | None,
    in_weight: torch.Tensor | None,
    in_bias: torch.Tensor | None,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    v_weight: torch.Tensor | None,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    key_padding_mask: torch.Tensor | None,
    attn_mask: torch.Tensor | None,
    num_heads: int,
    batch_first: bool,
    dropout: float,
    add_zero_attn: bool,
    is_causal: bool,
    need_weights: bool,
    average_weights: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Torch's own function, with an empty tensor in place of no weights."""
    from torch.nn import functional

    turned = batch_first and query.dim() == 3
    if turned:
        query, key, value = (t.transpose(0, 1) for t in (query, key, value))
    y, weights = functional.multi_head_attention_forward(
        query,
        key,
        value,
        query.shape[-1],
        num_heads,
        in_weight,
        in_bias,
        bias_k,
        bias_v,
        add_zero_attn,
        dropout,
        out_weight,
        out_bias,
        training=False,
        key_padding_mask=key_padding_mask,
        need_weights=need_weights,
        attn_mask=attn_mask,
        use_separate_proj_weight=in_weight is None,
        q_proj_weight=q_weight,
        k_proj_weight=k_weight,
        v_proj_weight=v_weight,
        average_attn_weights=average_weights,
        is_causal=is_causal,
    )
    y = y.transpose(0, 1) if turned else y
    return y.contiguous(), y.new_empty(0) if weights is None else weights


def _losses(
    log_probs: torch.Tensor,
    labels: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """Torch's own function, without a reduction."""
    from torch.nn import functional

    return functional.ctc_loss(
        log_probs, labels, input_lengths, target_lengths, blank, "none", zero_infinity=zero_infinity
    )


def _shape_of_losses(
    log_probs: torch.Tensor,
    labels: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """Return one loss a sequence; whatever counts these is as many."""
    import torch

    del blank, zero_infinity
    batch = log_probs.shape[1]
    for given in (labels, input_lengths, target_lengths):
        torch._check(given.shape[0] == batch)
    return log_probs.new_empty([batch])


def _fits(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    weights: Mapping[str, torch.Tensor | None],
    out_weight: torch.Tensor,
    heads: int,
    batch_first: bool,
) -> bool:
    """Whether operands of an attention without masks certainly go together; torch says what is wrong."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    operands = (query, key, value)
    rank, width = query.dim(), query.shape[-1]
    if rank not in (2, 3) or any(t.dim() != rank or t.dtype != query.dtype for t in operands):
        return False
    widths = {"in": width, "q": width, "k": key.shape[-1], "v": value.shape[-1]}
    wanted = {name: (3 * width if name == "in" else width, widths[name]) for name in weights}
    length = 0 if rank == 2 or not batch_first else 1
    pairs = [(key.shape[length], value.shape[length]), (out_weight.shape[0], width), (width % heads, 0)]
    pairs += [(out_weight.shape[1], width)]
    if "in" in weights:
        pairs += [(key.shape[-1], width), (value.shape[-1], width)]
    if rank == 3:
        pairs += [(t.shape[1 - length], query.shape[1 - length]) for t in (key, value)]
    for name, weight in weights.items():
        if weight is None or weight.dtype != query.dtype:
            return False
        pairs += zip(weight.shape, wanted[name], strict=True)
    return all(statically_known_true(a == b) for a, b in pairs)
