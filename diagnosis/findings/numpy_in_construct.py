"""A construct that computes with NumPy: no graph of the net can be compiled, and no gradient passes there."""

from __future__ import annotations

from ...frontends.mindspore_cell.left_graph import lines_to_numpy
from ...passes import Change
from ..subject import Subject

CODES = {
    "NP101": "a `construct` passes a tensor to NumPy: a graph cannot hold that, and gradients stop there"
}


def find(subject: Subject) -> list[Change]:
    """Return a finding for each class of the model's parts whose construct does so."""
    if subject.framework != "mindspore":
        return []
    found: list[Change] = []
    for cls in dict.fromkeys(type(part) for _, part in subject.parts()):
        lines = lines_to_numpy(cls)
        if lines:
            found.append(
                Change(
                    "NP101",
                    f"`{cls.__name__}` passes a tensor to NumPy in `construct` (`asnumpy()`): it cannot be "
                    f"compiled or rewritten, and gradients stop there",
                    place=", ".join(lines),
                    severity="error",
                    fixed=False,
                    advice="`ops` in its place (to draw: `ops.multinomial`), or return the tensor and call "
                    "NumPy outside of the Cell",
                )
            )
    return found
