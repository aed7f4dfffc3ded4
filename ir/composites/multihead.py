"""Multi-head attention with its projections, as torch's and MindSpore's layers of that name compute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BackendError
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import Dim, TensorType
from .attention import DROPOUT, dropped, safe_softmax, transposed
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()

INPUTS: tuple[str, ...] = (
    "query",
    "key",
    "value",
    "out_weight",
    "out_bias",
    "in_weight",
    "in_bias",
    "q_weight",
    "k_weight",
    "v_weight",
    "bias_k",
    "bias_v",
    "key_padding_mask",
    "attn_mask",
)
"""Operand names by slot."""

PARAMETERS = {
    "out_weight": "out_proj.weight",
    "out_bias": "out_proj.bias",
    "in_weight": "in_proj_weight",
    "in_bias": "in_proj_bias",
    "q_weight": "q_proj_weight",
    "k_weight": "k_proj_weight",
    "v_weight": "v_proj_weight",
    "bias_k": "bias_k",
    "bias_v": "bias_v",
}
"""Operand -> the parameter of nn.MultiheadAttention, in torch and MindSpore."""


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    query, key = types[0], types[1]
    if query is None or key is None or query.shape is None or key.shape is None:
        return [None if query is None else query.with_shape(None), None]
    bias = INPUTS.index("bias_k")
    extra = (len(types) > bias and types[bias] is not None) + operator.int("add_zero_attn")
    if len(query.shape) == 2:
        batch: tuple[Dim, ...] = ()
        rows, columns = query.shape[0], key.shape[0]
    else:
        first = operator.int("batch_first")
        batch = (query.shape[0 if first else 1],)
        rows, columns = query.shape[1 if first else 0], key.shape[1 if first else 0]
    if extra:
        columns = columns + extra if isinstance(columns, int) else None
    heads = () if operator.int("average_weights") else (operator.int("num_heads"),)
    return [query, query.with_shape((*batch, *heads, rows, columns))]


@dataclass
class _Expansion:
    """One multi-head attention in ONNX's operators; no length is written as a number."""

    b: Builder
    operator: Operator
    operands: dict[str, Value]

    def __post_init__(self) -> None:
        rank = self.b.graph.known_type(self.operands["query"]).rank
        if rank not in (2, 3):
            place = self.b.graph.describe(self.operator.key)
            raise BackendError("E602", f"expected queries of rank 2 or 3, got {rank}", place=place)
        self.batched = rank == 3
        self.batch_first = bool(self.operator.int("batch_first"))
        self.heads = self.operator.int("num_heads")
        width = (self.b.graph.known_type(self.operands["out_weight"]).shape or (None,))[0]
        assert isinstance(width, int)
        self.width = width

    def outputs(self) -> list[Value]:
        b = self.b
        query, key, value = (self._split(x) for x in self._biased(*self._projected()))
        query = b.op("Transpose", query, perm=self._perm())
        key, value = (self._padded(b.op("Transpose", x, perm=self._perm())) for x in (key, value))
        weighs = len(self.operator.types) > 1
        if weighs:
            mixed, weights = self._weighed(query, key, value)
        else:
            mixed, weights = self._fused(query, key, value), None
        if self.batched:
            mixed = b.op("Transpose", mixed, perm=[0, 2, 1, 3] if self.batch_first else [2, 0, 1, 3])
        else:
            mixed = b.op("Transpose", mixed, perm=[1, 0, 2])
        mixed = b.op("Reshape", mixed, b.constant([0] * self.batched + [0, self.width]))
        y = b.op("regraft.Linear", mixed, self.operands["out_weight"], self.operands.get("out_bias"))
        return [y] if weights is None else [y, weights]

    # -- projections -----------------------------------------------------------------------------

    def _projected(self) -> list[Value]:
        """Queries, keys and values, each (…, width)."""
        given = [self.operands[n] for n in ("query", "key", "value")]
        weight, bias = self.operands.get("in_weight"), self.operands.get("in_bias")
        if weight is not None and given[0] == given[1] == given[2]:
            joined = self.b.op("regraft.Linear", given[0], weight, bias)
            return self.b.ops("Split", joined, outputs=3, axis=-1, num_outputs=3)
        if weight is None:
            weights = [self.operands[n] for n in ("q_weight", "k_weight", "v_weight")]
        elif given[1] == given[2]:
            return self._shared(given[0], given[1], weight, bias)
        else:
            weights = self.b.ops("Split", weight, outputs=3, axis=0, num_outputs=3)
        biases: list[Value | None] = [None] * 3
        if bias is not None:
            biases = [*self.b.ops("Split", bias, outputs=3, axis=0, num_outputs=3)]
        return [self.b.op("regraft.Linear", x, w, c) for x, w, c in zip(given, weights, biases, strict=True)]

    def _shared(self, query: Value, memory: Value, weight: Value, bias: Value | None) -> list[Value]:
        """Return keys and values of one source, projected together."""
        b, sizes = self.b, self.b.constant([self.width, 2 * self.width])
        own, both = b.ops("Split", weight, sizes, outputs=2, axis=0)
        biases = [None, None] if bias is None else b.ops("Split", bias, sizes, outputs=2, axis=0)
        joined = b.op("regraft.Linear", memory, both, biases[1])
        keys_values = b.ops("Split", joined, outputs=2, axis=-1, num_outputs=2)
        return [b.op("regraft.Linear", query, own, biases[0]), *keys_values]

    def _biased(self, query: Value, key: Value, value: Value) -> list[Value]:
        """Append one more key and value, which are parameters (1, 1, width)."""
        if "bias_k" not in self.operands:
            return [query, key, value]
        return [query, self._appended(key, "bias_k"), self._appended(value, "bias_v")]

    def _appended(self, x: Value, name: str) -> Value:
        b, row = self.b, self.operands[name]
        if not self.batched:
            return b.op("Concat", x, b.op("Squeeze", row, b.constant([0])), axis=0)
        axis = 0 if self.batch_first else 1
        batch, one = b.op("Shape", x, start=axis, end=axis + 1), b.constant([1])
        sizes = [batch, one] if self.batch_first else [one, batch]
        rows = b.op("Expand", row, b.op("Concat", *sizes, b.constant([self.width]), axis=0))
        return b.op("Concat", x, rows, axis=1 - axis)

    # -- heads -----------------------------------------------------------------------------------

    def _split(self, x: Value) -> Value:
        """Return the last axis as (heads, width of a head)."""
        return self.b.op(
            "Reshape", x, self.b.constant([0] * self.batched + [0, self.heads, self.width // self.heads])
        )

    def _perm(self) -> list[int]:
        """(…, heads, width) in the layer's layout to (batch, heads, length, width)."""
        if not self.batched:
            return [1, 0, 2]
        return [0, 2, 1, 3] if self.batch_first else [1, 2, 0, 3]

    def _padded(self, x: Value) -> Value:
        """Append one more key or value of zeros, if the layer adds one."""
        if not self.operator.int("add_zero_attn"):
            return x
        return self._one_more(x, axis=-2)

    def _one_more(self, x: Value, axis: int) -> Value:
        """Return zeros, or false, at the end of an axis."""
        return self.b.op("Pad", x, self.b.constant([0, 1]), None, self.b.constant([axis]))

    def _extra(self) -> int:
        return ("bias_k" in self.operands) + self.operator.int("add_zero_attn")

    # -- attention -------------------------------------------------------------------------------

    def _fused(self, query: Value, key: Value, value: Value) -> Value:
        return self.b.op(
            "regraft.ScaledDotProductAttention",
            query,
            key,
            value,
            self._mask(truth=True),
            dropout=self.operator.float("dropout") or None,
        )

    def _weighed(self, query: Value, key: Value, value: Value) -> tuple[Value, Value]:
        """Attention that gives its weights too: a row without any key is NaN, as in the source."""
        b, mask = self.b, self._mask(truth=False)
        scaled = b.op("Mul", query, b.scalar_like(1 / sqrt(self.width // self.heads), query))
        scores = b.op("MatMul", scaled, transposed(b, key))
        weights = safe_softmax(b, scores, mask, empty=np.nan)
        weights = dropped(b, weights, self.operator.float("dropout"))
        mixed = b.op("MatMul", weights, value)
        if self.operator.int("average_weights"):
            weights = b.op("ReduceMean", weights, b.constant([-3]), keepdims=0)
        return mixed, weights

    # -- masks: true, or a number that is added, where a key is not to be seen ---------------------

    def _mask(self, *, truth: bool) -> Value | None:
        """Return both masks as one, for (batch, heads, length, keys): what is kept, or numbers to add."""
        b = self.b
        masks = [m for m in (self._pairs(), self._padding()) if m is not None]
        if not masks:
            return None
        logical = all(b.graph.known_type(m).dtype == "bool" for m in masks)
        if logical and truth:
            hidden = masks[0] if len(masks) == 1 else b.op("Or", *masks)
            return b.op("Not", hidden)
        masks = [self._number(m) for m in masks]
        return masks[0] if len(masks) == 1 else b.op("Add", *masks)

    def _number(self, mask: Value) -> Value:
        if self.b.graph.known_type(mask).dtype != "bool":
            return mask
        query = self.operands["query"]
        return self.b.op("Where", mask, self.b.scalar_like(-np.inf, query), self.b.scalar_like(0.0, query))

    def _pairs(self) -> Value | None:
        """`attn_mask`: (length, keys), or (batch * heads, length, keys)."""
        mask = self.operands.get("attn_mask")
        if mask is None:
            return None
        for _ in range(self._extra()):
            mask = self._one_more(mask, axis=-1)
        shape = self.b.graph.known_type(mask).shape
        if shape is None or len(shape) == 2 or not self.batched:
            return mask
        rows, columns = shape[-2:]
        if isinstance(rows, int) and isinstance(columns, int):
            target = self.b.constant([-1, self.heads, rows, columns])
        else:
            sizes = self.b.op("Shape", mask, start=1)
            target = self.b.op("Concat", self.b.constant([-1, self.heads]), sizes, axis=0)
        return self.b.op("Reshape", mask, target)

    def _padding(self) -> Value | None:
        """`key_padding_mask`: (batch, keys), or (keys)."""
        mask = self.operands.get("key_padding_mask")
        if mask is None:
            return None
        for _ in range(self._extra()):
            mask = self._one_more(mask, axis=-1)
        return self.b.op("Unsqueeze", mask, self.b.constant([1, 2])) if self.batched else mask


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    named = {n: v for n, v in zip(INPUTS, operands, strict=False) if v is not None}
    return _Expansion(b, operator, named).outputs()


TABLE.add(
    "MultiheadAttention",
    inputs=" ".join(INPUTS[:4]) + "".join(f" {name}?" for name in INPUTS[4:]),
    outputs="Y weights?",
    attributes=[
        AttributeSpec("num_heads", "int", required=True),
        AttributeSpec("batch_first", "int", default=0),
        DROPOUT,
        AttributeSpec("add_zero_attn", "int", default=0),
        AttributeSpec("average_weights", "int", default=1),
    ],
    infer=_infer,
    expand=_expand,
    traits=Traits(heavy=True),
    summary="projections, attention of several heads, and the projection of the output, over (length, batch, "
    "width) or (batch, length, width); a mask of truth values hides what is true",
)
