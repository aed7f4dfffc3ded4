"""Parameters that were made without a name, in places where no attribute gives them one."""

from __future__ import annotations

import re

from ...passes import Change
from ...passes.naming.wording import join_names
from ..subject import Subject, assigned_at

CODES = {
    "PN101": "a Parameter has no name of its own: MindSpore numbers it, and checkpoints follow the number"
}
_NUMBERED = re.compile(r"Parameter[#$]\d+$")


def find(subject: Subject) -> list[Change]:
    """Return one finding for all Parameters that a Cell holds under a number."""
    if subject.framework != "mindspore":
        return []
    found: list[Change] = []
    for path, part in subject.parts():
        names = [n for n, p in part._params.items() if p is not None and _NUMBERED.search(p.name)]
        if names:
            what = (
                f"a Parameter of `{path or subject.name}` has"
                if len(names) == 1
                else (f"{len(names)} Parameters of `{path or subject.name}` have")
            )
            parameters = {id(part._params[n]) for n in names}
            attribute = next((a for a, v in vars(part).items() if _holds(v, parameters)), "")
            held = join_names([part._params[n].name for n in names])
            found.append(
                Change(
                    "PN101",
                    f"{what} no name, and MindSpore numbers: {held}. One more Parameter shifts the numbers, "
                    f"and a checkpoint then loads into the wrong Parameters",
                    place=assigned_at(type(part), attribute) or (f"{path}.{names[0]}" if path else names[0]),
                    severity="warning",
                    fixed=False,
                    modules=(f"{path}.{attribute}" if path else attribute,) if attribute else (),
                    advice='`Parameter(…, name="weight1")`, a name for each',
                )
            )
    return found


def _holds(value: object, parameters: set[int]) -> bool:
    """Whether an attribute is a tuple with such Parameters."""
    return isinstance(value, tuple) and any(id(item) in parameters for item in value)
