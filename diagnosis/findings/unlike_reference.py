"""Reports settings and initial distributions that differ from the reference, for `fix --like`."""

from __future__ import annotations

from ...passes import Change

CODES = {
    "LK101": "a setting of a layer is not the reference's",
    "LK102": "an initial distribution differs from the reference's, so training starts differently",
    "LK103": "a parameter is trained that the reference freezes, or frozen that it trains",
    "LK104": "the outputs or the results of one training step differ from the reference's for another reason",
    "LK105": "parameter names differ from the reference's, so its checkpoints do not fit",
}


def unlike(what: str, layer: str, *, place: str = "", advice: str = "", code: str = "LK101") -> Change:
    """Return a finding of a layer that differs from the reference's.

    Args:
        what: both settings, in words.
        layer: path of the layer.
        place: the line that constructs it.
        advice: what to write there.
        code: which of `CODES`.
    """
    return Change(
        code,
        f"`{layer or '(root)'}` differs from the reference: {what}",
        place=place,
        severity="warning",
        fixed=False,
        modules=(layer,),
        advice=advice,
    )
