"""Why an operator of MXNet has no lowering, and what its user can do."""

from __future__ import annotations

from ...ir import Missing

HINT = (
    'end the symbol before it: set "heads" in the JSON to the nodes whose outputs it is given, '
    "and compute the rest where the emitted model is used"
)

_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (
        "Custom _Native _NDArray _FusedOp _TensorRT",
        "its code is its author's, which the files do not hold",
        "write what it computes in operators that MXNet has, and save the symbol again",
    ),
    (
        "_contrib_MultiBoxTarget _contrib_edge_id _contrib_hawkesll",
        "it makes what training compares with",
        "end the symbol at what the network predicts",
    ),
    (
        "sgd_update sgd_mom_update adam_update nag_mom_update rmsprop_update ftrl_update signsgd_update",
        "it is a step of an optimizer",
        "give the symbol that predicts",
    ),
    (
        "_contrib_quantized_conv _contrib_quantized_fully_connected _contrib_quantized_pooling "
        "_contrib_quantized_act _contrib_quantized_flatten _contrib_quantized_concat "
        "_contrib_requantize _sg_mkldnn_conv _sg_mkldnn_fully_connected",
        "it computes on 8 bits as MXNet's oneDNN kernels do",
        "give the symbol and the parameters before they were quantised",
    ),
    (
        "_contrib_boolean_mask _shuffle _contrib_getnnz _contrib_dgl_subgraph",
        "the size or the order of its result depends on data or chance",
        "write it with `where` and a mask of the whole size",
    ),
)
"""(operators, why, what to do)."""

REASONS = {name: (why, instead) for names, why, instead in _REFUSALS for name in names.split()}


def explain(operator: str, places: list[str]) -> Missing:
    """What to say of an operator without a lowering, and of its places."""
    why, instead = REASONS.get(operator, ("", ""))
    return Missing(operator, tuple(places), why, instead)
