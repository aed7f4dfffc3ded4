"""Reports faults that numbers do not show."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import CUMULATIVE

_SHOWN = 10
"""Tensors that the text names; JSON has them all."""


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One weight of the source that is several in the target, or several that are one.

    Attributes:
        sources: the source's parameters, by path.
        targets: the target's tensors, by name.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __str__(self) -> str:
        if len(self.targets) > len(self.sources):
            return (
                f"{_list_names(self.sources)} is {_count_names(self.sources)} in the source and "
                f"{len(self.targets)} tensors in the target: {_list_names(self.targets)}"
            )
        return (
            f"{_list_names(self.sources)} are {_count_names(self.sources)} in the source and "
            f"{len(self.targets)} in the target: {_list_names(self.targets)}"
        )


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting that acts in training only, in which a target differs from its source.

    Attributes:
        module: path in the source; in the target where the source has none there.
        setting: "Dropout", "Dropout of channels", "momentum", "trained scale" (1 or 0).
        source: its value in the source; None where it has no such layer.
        target: its value in the target; None likewise.
        places: the line of the source's call and of the target's; empty where nobody knows.
    """

    module: str
    setting: str
    source: float | None
    target: float | None
    places: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        mine, theirs = map(_spell_setting, (self.source, self.target))
        return f"{self.setting} {mine} against {theirs}: `{self.module or '(root)'}`"


def _spell_setting(value: float | None) -> str:
    if value is None:
        return "none"
    return "the average of all batches" if value == CUMULATIVE else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A tensor of a target whose values are not what ``renames.json`` or a pass says.

    Attributes:
        source: the parameter's path in the source.
        target: the tensor's name in the target.
        shapes: what it should have, and has.
        max_relative: the largest difference relative to the larger of the two elements; None where the shapes
            differ.
    """

    source: str
    target: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    max_relative: float | None

    def __str__(self) -> str:
        names = f"`{self.source}`" + (f" -> `{self.target}`" if self.target != self.source else "")
        if self.max_relative is None:
            return f"{names}: expected shape {list(self.shapes[0])}, got {list(self.shapes[1])}"
        return f"{names}: an element is {self.max_relative:.2g} off, relative"


@dataclass(frozen=True, slots=True)
class Structure:
    """The differences, besides numbers, between a source and what was written from it.

    Attributes:
        shared: weights that are one on one side and several on the other.
        settings: what acts in training only and differs.
        train: whether the latter counts.
        values: tensors that are not the source's, by the target's ``renames.json`` or what passes recorded.
        tensors: how many were compared so.
    """

    shared: list[SharedRow] = field(default_factory=list)
    settings: list[SettingRow] = field(default_factory=list)
    train: bool = False
    values: list[ValueRow] = field(default_factory=list)
    tensors: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing differs that counts."""
        return not self.shared and not self.values and not (self.train and self.settings)

    def differences(self) -> str:
        """Summarise the differences that count."""
        counts = [
            (len(self.values), "tensor"),
            (len(self.shared), "shared weight"),
            (len(self.settings) if self.train else 0, "setting"),
        ]
        return ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n)

    def lines(self) -> list[str]:
        """Return the text lines of the differences."""
        lines: list[str] = []
        if self.values:
            lines += ["", f"tensors that are not the source's: {len(self.values)} of {self.tensors}"]
            lines += [f"  {row}" for row in self.values[:_SHOWN]]
            more = len(self.values) - _SHOWN
            lines += [f"  and {more} more"] if more > 0 else []
        if self.shared:
            lines += [
                "",
                "weights that are shared differently, so training separates or joins them:",
            ]
            lines += [f"  {row}" for row in self.shared]
        if self.settings:
            lines += ["", "settings that differ, in the source against the target (in training only):"]
            lines += [f"  {row}" for row in self.settings]
            if not self.train:
                lines.append("  with --train this counts as a difference")
        return lines


def _list_names(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _count_names(names: tuple[str, ...]) -> str:
    return f"{len(names)} parameter{'s' if len(names) > 1 else ''}"
