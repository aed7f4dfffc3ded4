"""A sweep's unit of work and its result: a case and its row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

GOOD = ("equal", "clean")
"""Verdicts of a case that is as it should be."""

NOT_JUDGED = "not judged"
"""Verdict of a case that a judge leaves out, because what it is compared with does not run itself."""

VERDICTS = (
    *GOOD,
    NOT_JUDGED,
    "findings",
    "unproven",
    "different",
    "refused",
    "over time",
    "over memory",
    "fault",
    "died",
)
"""Verdicts of a row, best first: a later one than before is a regression."""

LASTING = (*GOOD, NOT_JUDGED, "findings", "unproven", "different", "refused")
"""Verdicts on the model, which hold until it changes; the others may be the machine's."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command line on one model, or one call of a judge.

    Attributes:
        name: the model as the suite names it, with what tells it from its like.
        step: "check", or the target that the model is rewritten to; a word of the suite's with a judge.
        model: the model as the command line takes it.
        arguments: the further arguments of the command, without an output.
        folder: the folder that the command runs in: the suite's, absolute.
        seconds: the time that it may take.
        memory: what its process may allocate, in bytes.
        judge: "file.py:function" that is called in place of a command; empty for a command.
        given: what the judge is given, as JSON.
        files: files and folders, besides the judge's, that the verdict depends on.
        group: row of the table of totals; empty for none.
        batch: how many cases one process judges, one after the other.
        process: cases of other words never share one.
        tolerance: how far apart, relative, an output may be that is equal otherwise; 0 for no such bound.
    """

    name: str
    step: str
    model: str
    arguments: tuple[str, ...]
    folder: str
    seconds: float
    memory: int
    judge: str = ""
    given: str = ""
    files: tuple[str, ...] = ()
    group: str = ""
    batch: int = 1
    process: str = ""
    tolerance: float = 0.0

    @property
    def title(self) -> str:
        """The name and the step in one line."""
        return f"{self.name} {'check' if self.step == 'check' else f'-> {self.step}'}"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a case.

    Attributes:
        name: of the case.
        step: of the case.
        verdict: one of `VERDICTS`.
        detail: the verdict in the command's words, or the error's.
        code: the error's or the first finding's code; empty where there is none.
        seconds: by the clock.
        cpu: seconds of CPU.
        memory: the largest resident set, in bytes.
        key: digest of all that the verdict depends on.
        host: the machine that ran it.
        output: URL of the folder of its output; empty where it was not kept.
        cached: whether this is the row of an earlier run.
        group: row of the table of totals that counts it; empty for none.
        data: what a judge says besides, as JSON has it.
        unkept: why the row is not in the store; empty where it is.
    """

    name: str
    step: str
    verdict: str
    detail: str = ""
    code: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    key: str = ""
    host: str = ""
    output: str = ""
    cached: bool = False
    group: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    unkept: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict in GOOD

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: object) -> Row:
        """Return a row of what `to_json` gave, leaving out what this version does not know.

        Raises:
            ValueError: for anything else.
        """
        if not isinstance(document, dict):
            raise ValueError(f"expected a row, got {type(document).__name__}")
        known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
        for name, value in known.items():
            wanted = cls.__dataclass_fields__[name].type
            good = {
                "str": isinstance(value, str),
                "bool": isinstance(value, bool),
                "int": isinstance(value, int),
                "float": isinstance(value, (int, float)),
                "dict[str, Any]": isinstance(value, dict),
            }
            if not good[str(wanted)]:
                raise ValueError(f"expected {wanted} as `{name}`, got {value!r}")
        if not {"name", "step", "verdict"} <= known.keys() or known["verdict"] not in VERDICTS:
            raise ValueError("expected a row with name, step and verdict")
        return cls(**known)
