"""Reports on two independently written nets: pairs, weights, settings, initial distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ..braces import braced
from .attributes import AttributeRow
from .calls import CallArguments
from .checkpoint_names import Prefix
from .draws import Draw
from .laws import LawRow
from .magnitudes import MagnitudeRow, magnitude_lines
from .pairing import ParameterPair
from .training_only import Freeze, FrozenRow


@dataclass(frozen=True, slots=True)
class Laws:
    """The initial distributions of two nets.

    Attributes:
        framework: the target's, in which the remedies are written.
        rows: one a pair of parameters.
        train: whether they count.
    """

    framework: str
    rows: list[LawRow]
    train: bool = False

    @property
    def differing(self) -> int:
        """The number of rows that differ, if they count."""
        return sum(row.passed is False for row in self.rows) if self.train else 0

    def lines(self) -> list[str]:
        """Return lines on those that differ, with remedies, and on the unknown ones."""
        failed = [row for row in self.rows if row.passed is False]
        unknown = [row for row in self.rows if row.passed is None]
        lines: list[str] = []
        if failed:
            lines += ["", f"initial distributions that differ: {len(failed)} of {len(self.rows)} parameters"]
            for (class_name, remedies, laws), rows in _by_remedy(failed).items():
                layers = list(dict.fromkeys(row.layer for row in rows))
                places = [row.place for row in rows]
                lines.append(
                    f"  {_many(len(layers), class_name)} {', '.join(f'`{n}`' for n in braced(layers))}"
                )
                lines += [f"    {law}" for law in laws]
                lines.append(
                    f"    {write_line(', '.join(remedies), places)}"
                    if remedies
                    else f"    {self.framework} has no such distribution"
                )
            if not self.train:
                lines.append("  training would start elsewhere; with --train this counts as a difference")
        if unknown:
            names = ", ".join(f"`{n}`" for n in braced([row.parameter for row in unknown]))
            lines += ["", f"initial distributions not inferred: {names}", f"  {unknown[0].reason}"]
        return lines


@dataclass(frozen=True, slots=True)
class Nets:
    """Two nets written apart, compared by what they are.

    Attributes:
        framework: the target's, in which the remedies are written.
        pairs: the parameters that stand for each other.
        only_source: names of the source's parameters without a counterpart, that it computes with.
        only_target: likewise in the target.
        copied: whether the source's values were given to the target for the comparison.
        differing: parameters of other values, where the target was not given the source's.
        settings: attributes in which paired modules differ.
        laws: the initial distributions, a row a pair.
        train: whether what acts in training only counts.
        modules: path of a module in the source -> in the target.
        inference: whether neither net can be trained here, so that `train` cannot be asked for: then settings
            that act in training only count too.
        biases: those that a layer has on one side only, as settings.
        calls: what to write in the calls of the user's that construct the target's layers.
        draws: what to write in the calls of the user's that draw the target's parameters.
        magnitudes: outputs and gradients of layers, where each net kept weights of its own.
        joined: how many parameters of the source, and of the target, one side keeps together.
        frozen: the parameters that one net alone trains.
        freeze: the statement by which the target freezes what the source does.
        prefixes: the target's Cells whose auto_prefix=False leaves out what the source's names have.
    """

    framework: str
    pairs: list[ParameterPair]
    only_source: list[str] = field(default_factory=list)
    only_target: list[str] = field(default_factory=list)
    copied: bool = False
    differing: list[str] = field(default_factory=list)
    settings: list[AttributeRow] = field(default_factory=list)
    laws: list[LawRow] = field(default_factory=list)
    train: bool = False
    modules: dict[str, str] = field(default_factory=dict)
    inference: bool = False
    biases: list[AttributeRow] = field(default_factory=list)
    calls: list[CallArguments] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    magnitudes: list[MagnitudeRow] = field(default_factory=list)
    joined: tuple[int, int] = (0, 0)
    frozen: list[FrozenRow] = field(default_factory=list)
    freeze: Freeze | None = None
    prefixes: list[Prefix] = field(default_factory=list)

    def _counts(self, row: AttributeRow) -> bool:
        return not row.structure and (self.train or self.inference or not row.training)

    @property
    def passed(self) -> bool:
        """Whether nothing is left unpaired and nothing differs that acts in what was asked for."""
        whole = not self.only_source and not self.only_target and all(p.equal is not None for p in self.pairs)
        settings = any(self._counts(row) for row in self.settings)
        laws = self.train and any(row.passed is False for row in self.laws)
        return whole and not self.differing and not settings and not laws

    def differences(self) -> str:
        """Summarise the differences other than numbers beyond tolerance."""
        unpaired = len(self.only_source) + len(self.only_target)
        settings = sum(self._counts(row) for row in self.settings)
        laws = sum(row.passed is False for row in self.laws) if self.train else 0
        counts = [
            (unpaired, "parameter{} on one side only"),
            (sum(p.equal is None for p in self.pairs), "of other shapes"),
            (len(self.differing), "of other values"),
            (settings, "setting{}"),
            (laws, "initial distribution{}"),
        ]
        told = [f"{count} {what.format('s' if count > 1 else '')}" for count, what in counts if count]
        return ", ".join(told)

    def blamed(self, call: str) -> list[str]:
        """Return the facts about a diverging call: its name in the target, its settings, the advice."""
        path = call.rpartition("#")[0]
        other = self.modules.get(path, path)
        named = f"{call} (`{other}` in the target)" if other != path else call
        rows = self._explaining(path)
        inside = [f" in `{row.target}`" if row.module != path else "" for row in rows]
        told = "; ".join(f"{row}{where}" for row, where in zip(rows, inside, strict=True))
        writes = dict.fromkeys(write_line(row.write, [row.place]) for row in rows if row.write)
        return [named + (f": {told}" if told else ""), *(f"  {w}" for w in writes)]

    def _explaining(self, path: str) -> list[AttributeRow]:
        """The settings by which a module gives something else: its own, else those of the first in it.

        What the modules are made of explains it only where no attribute does.
        """
        known = [row for row in self.settings if not row.training]
        own = [row for row in known if row.module == path]
        if any(not row.structure for row in own):
            return own
        inside = [row for row in known if row.module.startswith(f"{path}.") and not row.structure]
        return [row for row in inside if row.module == inside[0].module] if inside else own

    def blames(self, parameter: str) -> list[str]:
        """The settings that explain why a statistic of the source trains otherwise, and what to write."""
        path = parameter.partition(" + ")[0].rpartition(".")[0]
        rows = [row for row in self.settings if row.module == path]
        writes = dict.fromkeys(write_line(row.write, [row.place]) for row in rows if row.write)
        return ["; ".join(map(str, rows)), *(f"  {w}" for w in writes)] if rows else []

    def places_of_frozen(self, targets: Collection[str]) -> str:
        """The lines that construct the layers of parameters that one net alone trains, behind a dash."""
        return _at_lines(row.place for row in self.frozen if row.target in targets)

    def differing_lines(self, *, agree: bool, trained: bool) -> list[str]:
        """Return lines on the differences, block by block.

        Args:
            agree: whether the outputs do, so that differences of structure say nothing.
            trained: likewise of a training step, where what acts in training only is of the structure.
        """
        laws = Laws(self.framework, self.laws, self.train).lines()
        rows = [row for row in self.settings if not (row.structure and (trained if row.training else agree))]
        return [*self._unpaired(), *magnitude_lines(self.magnitudes), *self._settings(rows), *laws]

    def pair_lines(self) -> list[str]:
        """Return lines on the pairing of the nets and their weights."""
        why = ", ".join(f"{n} by {by}" for by, n in Counter(p.by for p in self.pairs).items())
        if not self.pairs and not self.only_source and not self.only_target:
            return ["", "paired: nothing, neither net has parameters"]
        fused = "; {} of the source are {} of the target".format(*self.joined) if any(self.joined) else ""
        lines = ["", f"paired: {len(self.pairs)} parameters ({why or 'none'}){fused}"]
        if self.copied:
            lines.append("weights: the target was given the source's for this comparison")
        return lines

    def _unpaired(self) -> list[str]:
        lines: list[str] = []
        if self.differing:
            lines.append("weights: each net kept its own; --copy-weights copies the source's into the target")
        lines += [f"weights: `{name}` has other values in the target" for name in braced(self.differing)]
        for row in self.pairs:
            if row.equal is None:
                sizes = f"{list(row.shape)} against {list(row.target_shape)}"
                lines.append(f"shape: `{row.source}` {sizes} in `{row.target}`")
        for side, names in (("source", self.only_source), ("target", self.only_target)):
            lines += [f"only in the {side}: `{name}`" for name in braced(names)]
        for text in dict.fromkeys(row.write for row in self.biases):
            rows = [row for row in self.biases if row.write == text]
            layers = ", ".join(f"`{name}`" for name in braced(row.target for row in rows))
            lines.append(f"  {write_line(f'{text} in {layers}', [row.place for row in rows])}")
        return ["", *lines] if lines else []

    def _settings(self, rows: Sequence[AttributeRow]) -> list[str]:
        if not rows:
            return []
        groups: dict[tuple[str, str, bool], list[AttributeRow]] = {}
        for row in rows:
            groups.setdefault((row.class_name, str(row), row.training), []).append(row)
        lines = ["", "settings that differ, in the source against the target:"]
        for (class_name, text, training), found in groups.items():
            names = ", ".join(f"`{name or '(root)'}`" for name in braced([r.target for r in found]))
            when = " (in training only)" if training else ""
            lines.append(f"  {text}{when}: {_many(len(found), class_name)} {names}")
            if found[0].write:
                lines.append(f"    {write_line(found[0].write, [row.place for row in found])}")
            if found[0].remark:
                lines.append(f"    {found[0].remark}")
        return lines


def _many(count: int, class_name: str) -> str:
    return f"{count} {class_name}" if count > 1 else class_name or "parameter"


def write_line(text: str, places: Iterable[str]) -> str:
    """Return the line of advice: the text to write, and its lines.

    Example:
        >>> write_line("momentum=0.9", ["net.py:3", "net.py:9", "net.py:3", "parts.py:4"])
        'write: momentum=0.9 - at net.py:3, 9, parts.py:4'
    """
    return f"write: {text}{_at_lines(places)}"


def _at_lines(places: Iterable[str]) -> str:
    """Lines behind a dash; empty for none."""
    known = list(dict.fromkeys(filter(None, places)))
    shown: list[str] = []
    file = ""
    for place in known[:_PLACES]:
        name, _, line = place.rpartition(":")
        shown.append(line if name == file else place)
        file = name
    more = len(known) - len(shown)
    rest = f" and {more} more line{'s' if more > 1 else ''}" if more > 0 else ""
    return f" - at {', '.join(shown)}{rest}" if known else ""


_PLACES = 3
"""Lines that one remedy names."""


def _by_remedy(rows: Sequence[LawRow]) -> dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[LawRow]]:
    """(class, what to write, the laws in words) -> the rows of layers in the target."""
    layers: dict[str, list[LawRow]] = {}
    for row in rows:
        layers.setdefault(row.layer, []).append(row)
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[LawRow]] = {}
    for found in layers.values():
        laws = tuple(
            f"{row.target.rpartition('.')[2]}: {row.source_law or 'unknown'} in the source, "
            f"{row.target_law or 'unknown'} in the target"
            + (f" (inferred from the {' and '.join(row.measured)}'s values)" if row.measured else "")
            for row in found
        )
        key = (found[0].class_name, tuple(row.remedy for row in found if row.remedy), laws)
        groups.setdefault(key, []).extend(found)
    return groups
