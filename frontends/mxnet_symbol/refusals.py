"""Why an operator of MXNet, or a form of one, is not lowered, and what its user can do."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Missing, RegraftError, UnsupportedError
from .reader import SymbolNode

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


class RefusedForms:
    """The forms of operators that a symbol has and nothing covers, gathered in one lowering of it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[str]] = {}
        self._unknown: set[int] = set()
        self.behind = 0
        """How many nodes take what is not known, and could not be looked at."""

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
        """One entry a form, in the order of the symbol."""
        return [
            Missing(operator, tuple(places), message, hint)
            for (operator, message, hint), places in self._found.items()
        ]


def refusal(operators: Sequence[Missing], forms: RefusedForms) -> UnsupportedError:
    """The one error that lists the operators without a lowering and the forms that are refused."""
    found = forms.missing()
    parts = [
        f"{len(of)} {what}{'s' if len(of) > 1 else ''}"
        for of, what in ((operators, "MXNet operator"), (found, "form"))
        if of
    ]
    message = f"no lowering for {' and '.join(parts)}" + (" of operators" if found else "")
    count = f"{forms.behind} operator{'s' if forms.behind > 1 else ''}"
    behind = f"; {count} behind these could not be looked at" if forms.behind else ""
    return UnsupportedError(
        "E201" if operators else "E203", message, missing=[*operators, *found], hint=HINT + behind
    )
