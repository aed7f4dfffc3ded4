"""The names of the inputs of MXNet's operators, and those that are parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Attributes = Mapping[str, str]

AUXILIARY_SLOTS = frozenset(["moving_mean", "moving_var", "moving_avg"])
"""Inputs that no gradient reaches: auxiliary states."""

PARAMETER_SLOTS = AUXILIARY_SLOTS | {"weight", "bias", "gamma", "beta", "parameters"}
"""Inputs that are state of a layer."""

LABEL_SLOT = "label"


def _biased(default: str, *data: str) -> Callable[[Attributes], tuple[str, ...]]:
    def names(attributes: Attributes) -> tuple[str, ...]:
        bias = attributes.get("no_bias", default).lower() in ("false", "0")
        return ("data", *data, "weight", "bias") if bias else ("data", *data, "weight")

    return names


def _fixed(*names: str) -> Callable[[Attributes], tuple[str, ...]]:
    return lambda _attributes: names


def _leaky(attributes: Attributes) -> tuple[str, ...]:
    return ("data", "gamma") if attributes.get("act_type", "leaky") == "prelu" else ("data",)


def _recurrent(attributes: Attributes) -> tuple[str, ...]:
    names = ("data", "parameters", "state")
    if attributes.get("mode") == "lstm":
        names = (*names, "state_cell")
    lengths = attributes.get("use_sequence_length", "False").lower() in ("true", "1")
    return (*names, "sequence_length") if lengths else names


def _upsampling(attributes: Attributes) -> tuple[str, ...]:
    return ("data", "weight") if attributes.get("sample_type") == "bilinear" else ()


_SLOTS: dict[str, Callable[[Attributes], tuple[str, ...]]] = {
    "Convolution": _biased("False"),
    "Convolution_v1": _biased("False"),
    "Deconvolution": _biased("True"),
    "_contrib_DeformableConvolution": _biased("False", "offset"),
    "_contrib_ModulatedDeformableConvolution": _biased("False", "offset", "mask"),
    "FullyConnected": _biased("False"),
    "Embedding": _fixed("data", "weight"),
    "BatchNorm": _fixed("data", "gamma", "beta", "moving_mean", "moving_var"),
    "BatchNorm_v1": _fixed("data", "gamma", "beta", "moving_mean", "moving_var"),
    "_contrib_SyncBatchNorm": _fixed("data", "gamma", "beta", "moving_mean", "moving_var"),
    "LayerNorm": _fixed("data", "gamma", "beta"),
    "GroupNorm": _fixed("data", "gamma", "beta"),
    "InstanceNorm": _fixed("data", "gamma", "beta"),
    "LeakyReLU": _leaky,
    "RNN": _recurrent,
    "UpSampling": _upsampling,
    "IdentityAttachKLSparseReg": _fixed("data", "moving_avg"),
    "SoftmaxOutput": _fixed("data", LABEL_SLOT),
    "SVMOutput": _fixed("data", LABEL_SLOT),
    "LinearRegressionOutput": _fixed("data", LABEL_SLOT),
    "LogisticRegressionOutput": _fixed("data", LABEL_SLOT),
    "MAERegressionOutput": _fixed("data", LABEL_SLOT),
}


def slot_names(op: str, attributes: Attributes) -> tuple[str, ...]:
    """Return the names of an operator's inputs; empty for one that has no parameters and no label."""
    return _SLOTS[op](attributes) if op in _SLOTS else ()


def parameter_slots(op: str, attributes: Attributes) -> dict[int, str]:
    """Return input slot -> parameter name; not empty for the operators that become modules."""
    return {i: n for i, n in enumerate(slot_names(op, attributes)) if n in PARAMETER_SLOTS}


def is_label(op: str, attributes: Attributes, slot: int) -> bool:
    """Whether an input is a label, which inference does not read."""
    names = slot_names(op, attributes)
    return slot < len(names) and names[slot] == LABEL_SLOT
