"""Explains refused primitives, with advice."""

from __future__ import annotations

import re

from ...ir import Missing

_RULES: tuple[tuple[str, str, str], ...] = (
    (
        r"^(Uniform|Normal|StandardNormal|StandardLaplace|Multinomial|Bernoulli|Rand|Gamma$|Poisson|Truncated"
        r"|ParameterizedTruncated|Cauchy|Generator|LogNormal)|CandidateSampler$",
        "it draws other random numbers each time it runs, and no other runtime draws the same",
        "draw them outside the model and give them as an input; `rrelu` is `leaky_relu` in evaluation",
    ),
    (
        r"^(Igamma|Igammac|NextAfter|Betainc|RandomGammaGrad)",
        "no formula of a fixed number of steps gives it to the precision of float32",
        "compute it outside the model, or write an approximation for the range that the model needs",
    ),
    (
        r"^(Lstsq|Eig|MatrixSolveLs|MatrixLogarithm|NuclearNorm)$",
        "it is an iterative or rank-revealing factorisation, which neither ONNX nor MindSpore source has",
        "compute it outside the model and give the result as an input",
    ),
    (
        r"^(CTCGreedyDecoder|EditDistance|ListDiff|RaggedRange)|^Sparse|NonMaxSuppression|NMS",
        "the size of its result depends on data",
        "call it on what the model returns",
    ),
    (
        r"^(All(Reduce|Gather|toAll)|Neighbor|ReduceScatter|Broadcast$|Collective|Send$|Receive$)",
        "it talks to other devices",
        "load the model as one device runs it",
    ),
)
"""(pattern of the primitive's name, why it is refused, what to do instead); the first that fits."""


def explain(operator: str, places: list[str]) -> Missing:
    """Return why a primitive without a lowering is refused, where more is known than that it has none."""
    for pattern, reason, instead in _RULES:
        if re.search(pattern, operator):
            return Missing(operator, tuple(places), reason, instead)
    return Missing(operator, tuple(places))
