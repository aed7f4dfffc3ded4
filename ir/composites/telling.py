"""What a net under debugging tells while it runs: it changes no value, and stands where it was."""

from __future__ import annotations

from ..signatures import AttributeSpec
from .base import CompositeTable
from .loss import nothing, same_type

TABLE = CompositeTable()

TABLE.add(
    "Tell",
    inputs="X*",
    attributes=[
        AttributeSpec("kind", "string", default="Print"),
        AttributeSpec("said", "string", required=True),
    ],
    infer=same_type,
    expand=nothing,
    summary="the first X; MindSpore's primitive `kind` is given `said`, a JSON list of texts, numbers and "
    "null, which stands for the next of the other X",
)
