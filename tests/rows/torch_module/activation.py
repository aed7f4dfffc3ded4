"""Cases of activations, normalisations and attention."""

import torch

from .case import Case, Group, X, constant, floats

_PLAIN = "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish relu relu6 selu"
_PLAIN += " silu softplus softshrink"
_IMAGE = floats(2, 4, 5, 6)

ACTIVATIONS = Group(
    [
        *(Case(f"aten.{name}.default", X) for name in _PLAIN.split()),
        Case("aten._log_softmax.default", X, 1, False),
        Case("aten._softmax.default", X, 1, False),
        Case("aten.log_softmax.int", X, -1),
        Case("aten.softmax.int", X, -1),
        Case("aten.dropout.default", X, 0.5, False),
        Case("aten.feature_dropout.default", X, 0.5, False),
        Case("aten.glu.default", X, 2),
        Case("aten.relu.default", X.through(lambda x: (4 * x).long())),
        Case("aten.prelu.default", X, constant(3)),
        Case("aten.rrelu.default", X, 0.1, 0.3, False),
        Case("aten.threshold.default", X, 0.1, 20.0),
    ]
)

NORMS = Group(
    [
        Case(
            "aten._native_batch_norm_legit_no_training.default",
            *(
                _IMAGE,
                constant(4),
                constant(4, seed=2),
                constant(4, seed=3),
                constant(4).abs() + 0.5,
                0.1,
                1e-3,
            ),
            then=lambda found: found[0],  # the statistics of a batch are empty in inference
        ),
        Case(
            "aten.batch_norm.default",
            *(_IMAGE, constant(4), constant(4, seed=2), constant(4, seed=3), constant(4).abs() + 0.5),
            *(False, 0.1, 1e-3, False),
        ),
        Case("aten.group_norm.default", _IMAGE, 2, constant(4), constant(4, seed=2), 1e-3),
        Case(
            "aten.instance_norm.default",
            *(_IMAGE, constant(4), constant(4, seed=2), None, None, True, 0.1, 1e-3, False),
        ),
        Case("aten.layer_norm.default", _IMAGE, [5, 6], constant(5, 6), constant(5, 6, seed=2), 1e-3),
        Case("aten.rms_norm.default", _IMAGE, [6], constant(6), 1e-3),
    ]
)

_MULTIHEAD = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()

ATTENTION = Group(
    [
        Case("aten.scaled_dot_product_attention.default", _IMAGE, _IMAGE, _IMAGE),
        Case("regraft.multihead_attention.default", X, X, X, call=_MULTIHEAD),
    ]
)

GROUPS = [ACTIVATIONS, NORMS, ATTENTION]
