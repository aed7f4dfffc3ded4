"""Explains the operators and forms of MXNet without a lowering, with advice for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir import Missing, RegraftError, UnsupportedError
from .reader import SymbolNode

HINT = (
    'end the symbol before it: set "heads" in the JSON to the nodes whose outputs it is given, '
    "and compute the rest where the emitted model is used"
)

_RULES: tuple[tuple[str, str, str], ...] = (
    (
        r"Custom|_Native|_NDArray|_FusedOp|_TensorRT|_CachedOp.*|_CustomFunction|_npi_Custom|_NoGradient",
        "its code is its author's, or of the process that ran it, which the files do not hold",
        "rewrite it in operators that MXNet has, and save the symbol again",
    ),
    (
        r".*backward.*|_contrib_MultiBoxTarget|_npx_multibox_target|_contrib_edge_id|_contrib_hawkesll|_scatter_set_nd"
        r"|reset_arrays|_set_value|fill_element_0index|_onehot_encode|_identity_with_attr_like_rhs",
        "it makes training targets or gradients",
        "end the symbol at the network's predictions",
    ),
    (
        r".*_update(_phase.)?|multi_lars|multi_sum_sq|(multi_)?all_finite|amp_multicast",
        "it is a step of an optimizer",
        "give the symbol that predicts",
    ),
    (
        r".*quantiz.*|_sg_mkldnn_.*|_contrib_calibrate_entropy|_contrib_BatchNormWithReLU",
        "it computes on 8 bits, or fuses, as MXNet's oneDNN kernels do",
        "give the symbol and the parameters before they were quantised or fused",
    ),
    (
        r"_contrib_(boolean_mask|getnnz)|_npi_(boolean_mask.*|nonzero|unique|bincount|delete|insert_.*)|_npx_nonzero",
        "the size of its result depends on data",
        "write it with `where` and a mask of the whole size",
    ),
    (
        r"_contrib_(Deformable)?PSROIPooling|_contrib_RROIAlign",
        "it pools regions whose places, or whose turning, a kernel of its own follows",
        "take `_contrib_ROIAlign`, with `position_sensitive` where each bin has channels of its own",
    ),
    (
        r"_contrib_dgl_.*|cast_storage|_sparse_(retain|cast_storage)|_square_sum|_contrib_count_sketch",
        "it needs arrays in a sparse form, and all arrays here are dense",
        "write it on dense arrays, with `take` and `where`",
    ),
    (
        r"_(random|sample)_.*|_npi_(bernoulli|choice|exponential|gamma|gumbel|logistic|multinomial|normal.*|pareto"
        r"|random_randint|rayleigh|shuffle|uniform.*|weibull|powerd)",
        "it draws from a distribution, or computes a density, that no target has",
        "draw outside the model and give the numbers as an input",
    ),
    (
        r"_image_.*|_npx__image_.*|_cv.*|_imdecode|_npi_cv.*",
        "it prepares images before the model",
        "do it in the data pipeline, and start the symbol after it",
    ),
    (
        r"_npi_(eig.*|svd|pinv.*|solve|tensorinv|tensorsolve|cholesky|norm|lstsq|qr)|_contrib_i?fft",
        "it is a factorisation or a transform that differs among the targets",
        "compute it outside the model and give the result as an input",
    ),
    (
        r"_np_.*|_npi_.*|_npx_.*",
        "regraft reads only those operators of `mx.np` and `mx.npx` that layers consist of",
        "write it with one that is read, or with `mx.sym`, and save the symbol again",
    ),
)
"""(a pattern of whole names, why, what to do); the first that fits counts."""

_OTHERS = (
    "it has no lowering yet",
    "write it in operators that have one, or add a lowering (docs/adding.md)",
)


def reason(operator: str) -> tuple[str, str]:
    """Return why an operator has no lowering, and the advice; empty for one that MXNet does not have."""
    return next(((why, what) for names, why, what in _RULES if re.fullmatch(names, operator)), ("", ""))


def explain(operator: str, places: list[str]) -> Missing:
    """Explain an operator without a lowering, and its places."""
    why, instead = reason(operator)
    return Missing(operator, tuple(places), why, instead)


def refusals_page(refused: Sequence[str]) -> str:
    """Return the page docs/en/reference/mxnet-refusals.md, of MXNet's operators without a lowering."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name in sorted(refused):
        why, instead = reason(name)
        rows.setdefault((why, instead) if why else _OTHERS, []).append(f"`{name}`")
    return "\n".join(
        [
            "# MXNet operators that are refused",
            "",
            "Every operator of MXNet 1.9.1 without a lowering, by the name under which it is saved. Written "
            "by `make golden`, checked by the tests. Forms of the others that are refused stand beside these "
            "in one error, with what is expected.",
            "",
            "| operators | why | instead |",
            "|---|---|---|",
            *(f"| {', '.join(names)} | {why} | {what} |" for (why, what), names in sorted(rows.items())),
            "",
        ]
    )


class RefusedForms:
    """The forms of operators that a symbol has and nothing covers, gathered in one lowering of it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[str]] = {}
        self._unknown: set[int] = set()
        self.behind = 0
        """Number of nodes with unknown operands, which could not be checked."""

    def allows(self, node: SymbolNode, has_lowering: bool) -> bool:
        """Whether a node can be lowered: it has a lowering, and so had all before it."""
        known = not any(index in self._unknown for index, _ in node.inputs)
        self.behind += not known
        if not known or not has_lowering:
            self._unknown.add(node.index)
        return known and has_lowering

    def add(self, node: SymbolNode, error: RegraftError) -> None:
        """Take up why a node is refused; what is wrong with a file or an input is said elsewhere."""
        self._unknown.add(node.index)
        if isinstance(error, UnsupportedError):
            key = (node.op, error.message.removeprefix(f"`{node.op}`: "), error.hint)
            self._found.setdefault(key, []).append(node.place)

    def missing(self) -> list[Missing]:
        """Return one entry a form, in the order of the symbol."""
        return [
            Missing(operator, tuple(places), message, hint)
            for (operator, message, hint), places in self._found.items()
        ]


def refusal(operators: Sequence[Missing], forms: RefusedForms) -> UnsupportedError:
    """Return the one error that lists the operators without a lowering and the forms that are refused."""
    found = forms.missing()
    parts = [
        f"{len(of)} {what}{'s' if len(of) > 1 else ''}"
        for of, what in ((operators, "MXNet operator"), (found, "form"))
        if of
    ]
    message = f"no lowering for {' and '.join(parts)}" + (" of operators" if found else "")
    count = f"{forms.behind} operator{'s' if forms.behind > 1 else ''}"
    behind = f"; {count} after these could not be checked" if forms.behind else ""
    return UnsupportedError(
        "E201" if operators else "E203", message, missing=[*operators, *found], hint=HINT + behind
    )
