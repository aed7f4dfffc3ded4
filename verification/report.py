"""The result of a verification: rows for outputs and module calls, and the first divergence."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output in one case.

    Attributes:
        name: the output's name in the source.
        case: which inputs: ``N=2``.
        shape: the source's shape.
        max_abs: largest absolute difference.
        max_rel: the same relative to the source's largest absolute value.
        tolerance: what was allowed.
        passed: whether it is within the tolerance.
        reason: why not, or a remark.
    """

    name: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module call of the source.

    Attributes:
        call: ``path#n``.
        class_name: class in the source.
        max_abs: largest absolute difference at its outputs in the whole model; None when not compared.
        max_rel: the same relative to the largest absolute value.
        tolerance: what was allowed.
        isolated_max_abs: largest difference when the target's module runs alone on the source's recorded inputs.
        isolated_passed: whether that is within tolerance; None when it was not run.
        passed: whether boundary and isolated run are; None when nothing was compared.
        reason: why it failed, or why it was not compared.
    """

    call: str
    class_name: str
    max_abs: float | None = None
    max_rel: float | None = None
    tolerance: float | None = None
    isolated_max_abs: float | None = None
    isolated_passed: bool | None = None
    passed: bool | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """``passed``, ``FAILED: why`` or ``not compared: why``."""
        if self.passed is None:
            return f"not compared: {self.reason}"
        return "passed" if self.passed else f"FAILED: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found.

    Attributes:
        source: what ran as the source, and where.
        target: what ran as the target, and where.
        yardstick: how the tolerances came about.
        outputs: one row per output and case.
        modules: one row per module call of the source, in call order.
        first_divergence: the call in which the target goes wrong, or None.
        notes: what a reader should know besides.
    """

    source: str
    target: str
    yardstick: str
    outputs: list[OutputRow] = field(default_factory=list)
    modules: list[ModuleRow] = field(default_factory=list)
    first_divergence: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether something was compared, and all of it is within tolerance."""
        compared = any(math.prod(row.shape) for row in self.outputs)
        return (
            compared
            and all(r.passed for r in self.outputs)
            and all(r.passed is not False for r in self.modules)
        )

    def to_dict(self) -> dict[str, object]:
        """The report as plain data; what is not a number is None."""
        return _plain({"passed": self.passed, **asdict(self)})  # type: ignore[return-value]

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
