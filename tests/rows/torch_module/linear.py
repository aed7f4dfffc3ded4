"""Cases of products of matrices, and of recurrent layers."""

import torch

from .case import Case, Group, constant, floats

_ROWS, _STACK = floats(2, 4), floats(2, 3, 4)
_OTHER = floats(2, 4, 3, seed=1)

PRODUCTS = Group(
    [
        Case("aten.addmm.default", constant(5), _ROWS, constant(4, 5), beta=0.5, alpha=2),
        Case(
            "aten.baddbmm.default", _STACK.through(lambda x: x[:, :, :3]), _STACK, _OTHER, beta=2, alpha=0.5
        ),
        Case("aten.bilinear.default", _ROWS, _ROWS, constant(5, 4, 4), constant(5)),
        Case("aten.bmm.default", _STACK, _OTHER),
        Case("aten.einsum.default", "bij,bjk->bik", [_STACK, _OTHER]),
        Case("aten.linear.default", _STACK, constant(5, 4), constant(5)),
        Case("aten.matmul.default", _STACK, _OTHER),
        Case("aten.mm.default", _ROWS, constant(4, 5)),
        Case("aten.mv.default", _ROWS, constant(4)),
    ]
)

_VECTOR = floats(4)

FIXED = Group(  # sums over axis 0
    [
        Case("aten.addbmm.default", constant(3, 3), _STACK, _OTHER, beta=2, alpha=0.5),
        Case("aten.addmv.default", constant(2), _ROWS, _VECTOR, beta=2, alpha=0.5),
        Case("aten.dot.default", _VECTOR, constant(4)),
    ],
    dynamic=False,
)


def _weights(gates: int) -> list[torch.Tensor]:
    return [constant(gates * 5, 4), constant(gates * 5, 5), constant(gates * 5), constant(gates * 5, seed=2)]


_LAYER = (True, 1, 0.0, False, False, True)

_GRU = torch.nn.GRU(4, 5, batch_first=True).requires_grad_(False)


def _of_lengths(x: torch.Tensor) -> torch.Tensor:
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
    return _GRU(packed)[1]


RECURRENT = Group(
    [
        Case("aten.gru.input", _STACK, constant(1, 2, 5), _weights(3), *_LAYER),
        Case("aten.lstm.input", _STACK, [constant(1, 2, 5), constant(1, 2, 5, seed=2)], _weights(4), *_LAYER),
        Case("aten.rnn_relu.input", _STACK, constant(1, 2, 5), _weights(1), *_LAYER),
        Case("aten.rnn_tanh.input", _STACK, constant(1, 2, 5), _weights(1), *_LAYER),
        Case("regraft.recurrent_of_lengths.default", _STACK, call=_of_lengths),
    ],
    dynamic=False,
)

_HIDDEN = floats(2, 5, seed=3)

CELLS = Group(
    [
        Case("aten.gru_cell.default", _ROWS, _HIDDEN, *_weights(3)),
        Case("aten.lstm_cell.default", _ROWS, [_HIDDEN, _HIDDEN], *_weights(4)),
        Case("aten.rnn_relu_cell.default", _ROWS, _HIDDEN, *_weights(1)),
        Case("aten.rnn_tanh_cell.default", _ROWS, _HIDDEN, *_weights(1)),
    ]
)


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def _grouped(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:  # noqa: A002
    """The operator of transformers' mixtures of experts, which is registered by importing that library."""
    found = input.new_zeros(input.shape[0], weight.shape[2])
    for group, (start, end) in enumerate(zip([0, *offs.tolist()], offs.tolist(), strict=False)):
        found[start:end] = input[start:end] @ weight[group]
    return found


@_grouped.register_fake
def _(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:  # noqa: A002
    return input.new_empty(input.shape[0], weight.shape[2])


EXPERTS = Group(
    [
        Case(
            "transformers.grouped_mm_fallback.default",
            floats(7, 4),
            constant(3, 4, 5),
            torch.tensor([2, 2, 6]),
        )
    ],
    dynamic=False,
)

GROUPS = [PRODUCTS, FIXED, RECURRENT, CELLS, EXPERTS]
