"""Fixing: the smallest edit in the user's own file, proved on a copy before the file is written."""

from __future__ import annotations

import difflib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..diagnosis import Subject, Wanted, plan_edits, plan_renewal
from ..diagnosis.editing import apply_edits
from ..diagnosis.versions import CODES as OF_VERSIONS
from ..formats.files import settle, staged
from ..frontends import Inputs, LoadOptions, read, read_tree, resolve
from ..ir import Graph, ModelError, RegraftError, UsageError, missing_file, table_markup, text_markup
from ..passes.base import Change
from ..process.entry import public_call
from ..verification import Report
from ..verification import verify as compare
from ..verification.runners.select_runner import can_train
from .findings import Findings, check, uses_in, wanted
from .reference_diff import OTHERWISE, differences, edits_of

__all__ = ["Fixed", "fix"]


@dataclass(frozen=True, slots=True)
class Fixed:
    """The result of `fix`.

    Attributes:
        file: the user's file.
        diff: the edit as a unified diff; empty where nothing was to be edited.
        solved: the findings that the edit removes.
        left: the findings that it does not.
        proof: what was proved of the edited file, a line each.
        backup: the file as it was; None where nothing was written.
    """

    file: Path
    diff: str = ""
    solved: list[Change] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)
    proof: list[str] = field(default_factory=list)
    backup: Path | None = None

    def _repr_html_(self) -> str:
        """Return the edit, its proof and the findings that are left, as notebooks show them."""
        left = [(c.severity, c.code, c.message, c.place, c.advice) for c in self.left]
        return "".join(
            [
                text_markup(f"{len(self.solved)} solved, {len(self.left)} left", "strong"),
                text_markup(self.diff, "pre") if self.diff else "",
                *(text_markup(line, "p") for line in self.proof),
                table_markup(("", "code", "finding", "at", "write"), left) if left else "",
            ]
        )


@public_call()
def fix(
    model: str, inputs: Inputs, options: LoadOptions, *, like: str | None, release: str, write: bool
) -> Fixed:
    """Edit the file that defines a model; see `api.fix`."""
    selected = wanted("", (), (), release)
    if selected.release and like is None and model.endswith(".py") and Path(model).is_file():
        return _renewed(Path(model).resolve(), selected, write=write)
    where, _, name = model.rpartition(":")
    if where.endswith(".py") and not Path(where).exists():
        raise missing_file(where)
    if not where.endswith(".py") or not Path(where).is_file():
        whole = model.endswith(".py") and Path(model).is_file()
        hint = (
            f"`regraft check {model}` examines all models of the file and says their names" if whole else ""
        )
        raise UsageError("E001", f"expected a model in a file, file.py:Name, got `{model}`", hint=hint)
    if like is not None and inputs is None:
        raise UsageError(
            "E001",
            f"expected inputs with --like, as `{model}` and `{like}` are compared by running both, got none",
            hint="--input 2x3x32x32, or leave out --like: then no outputs are compared",
        )
    path = Path(where).resolve()
    settle(path.parent)
    source = path.read_bytes()
    before = check(model, inputs, options, selected)
    worst = [c for c in before if c.severity != "note"]
    subject = Subject(read_tree(resolve(model, options)[1], options), model)
    renewals, needed = (
        plan_renewal(path, worst, selected.release, rerun=True) if selected.release else ([], [])
    )
    text, done = apply_edits(source, [*plan_edits(subject, worst), *renewals], needed)
    reference = None if like is None else read(like, inputs, options)
    unlike: list[Change] = []
    before_like: Report | None = None
    liked: Report | None = None
    if reference is not None:
        with _beside(path, text) as copy:
            before_like = _compared(reference, read(f"{copy}:{name}", inputs, options))
            unlike = differences(before_like, copy, path)
            edits, imports = edits_of(before_like, copy)
        some = [edit for edit in edits if edit.kind not in ("before", "expression")]
        for chosen in (edits, some) if len(some) < len(edits) else (some,):
            edited, more = apply_edits(text, chosen, imports)
            if more:
                liked = _improved(reference, (path, name), edited, before_like, unlike, (inputs, options))
            if liked is not None and chosen is not some and not _agrees(liked):
                liked = None  # what is computed otherwise proves itself by equal outputs alone
            if liked is not None:
                text, done = edited, [*done, *more]
                break
    if not done:
        return Fixed(path, left=[*worst, *unlike])
    compile(text, str(path), "exec")
    with _beside(path, text) as copy:
        after = check(f"{copy}:{name}", inputs, options, selected)
        solved = _solved(worst, after)
        proof = [_names(after, path)]
        report = liked or before_like  # of the text as it is: edits that make nothing better are not in it
        if report is not None:
            proof.append(_as_reference(report, str(like), whole=liked is None))
            remaining = {(c.code, c.modules): c for c in differences(report, copy, path)}
            solved += [c for c in unlike if (c.code, c.modules) not in remaining]
            unlike += [c for key, c in remaining.items() if key not in {(u.code, u.modules) for u in unlike}]
        else:
            proof += _outputs(model, f"{copy}:{name}", inputs, options, solved)
    worst += unlike
    diff = "".join(_diff(source, text, path.name))
    left = [c for c in worst if c not in solved]
    return Fixed(path, diff, solved, left, proof, _replaced(path, source, text) if write else None)


def _replaced(path: Path, source: bytes, text: bytes) -> Path:
    """Write an edited file in the place of the user's, and return the copy of the old one.

    Raises:
        UsageError: when the file is no longer the one that was read (E002).
    """
    if path.read_bytes() != source:
        raise UsageError("E002", f"`{path}` was changed while it was being fixed")
    backup = _free(path)
    with staged(path.parent, [path.name, backup.name], force=True) as stage:
        (stage / path.name).write_bytes(text)
        (stage / backup.name).write_bytes(source)
    return backup


def _renewed(path: Path, selected: Wanted, *, write: bool) -> Fixed:
    """Renew a whole script for a release of MindSpore, by its text alone."""
    settle(path.parent)
    source = path.read_bytes()
    worst = [c for c in uses_in(path, selected) if c.severity != "note"]
    text, done = apply_edits(source, *plan_renewal(path, worst, selected.release, rerun=False))
    if not done:
        return Fixed(path, left=worst)
    compile(text, str(path), "exec")
    with _beside(path, text) as copy:
        solved = _gone(worst, uses_in(copy, selected))
    left = [c for c in worst if c not in solved]
    diff = "".join(_diff(source, text, path.name))
    proof = ["outputs: not compared, as a whole script is not run"]
    return Fixed(path, diff, solved, left, proof, _replaced(path, source, text) if write else None)


def _gone(before: Sequence[Change], after: Findings) -> list[Change]:
    """Return the findings that an edited file has no longer: each as often as it has one less."""
    remaining = Counter((c.code, c.message) for c in after)
    found = []
    for change in before:
        if remaining[change.code, change.message]:
            remaining[change.code, change.message] -= 1
        else:
            found.append(change)
    return found


@contextmanager
def _beside(path: Path, text: bytes) -> Iterator[Path]:
    """Write the edited file beside the user's, under another name, for the time of a with block."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="regraft_fix_", suffix=".py") as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def _solved(worst: Sequence[Change], after: Findings) -> list[Change]:
    """Return the findings that the edited file does not have.

    Raises:
        ModelError: when the edit brings a finding of its own: nothing is written.
    """
    codes = {c.code for c in after if c.severity != "note"}
    fresh = codes - {c.code for c in worst} - {"DU104", "RP101", "DU101", "DU102", "DM101"}
    if fresh:
        first = next(c for c in after if c.code in fresh)
        raise ModelError("E102", f"the edited file has a finding of its own: {first}")
    uses = [c for c in worst if c.code in OF_VERSIONS]
    return [c for c in worst if c.code not in {*codes, *OF_VERSIONS}] + _gone(uses, after)


def _names(after: Findings, path: Path) -> str:
    """Describe the names of the edited file.

    Raises:
        ModelError: when two parameters still have one name.
    """
    clash = next((c for c in after if c.code in ("RP101", "DU104")), None)
    if clash is not None:
        raise ModelError("E102", f"the edit leaves equal names: {clash}", place=str(path))
    return "names: unique"


def _outputs(old: str, new: str, inputs: Inputs, options: LoadOptions, solved: Sequence[Change]) -> list[str]:
    """Describe the proof about the outputs, without a reference.

    Raises:
        ModelError: when they should be as before, and are not.
    """
    if inputs is None:
        return ["outputs: not compared, as no inputs were given: --input"]
    codes = {c.code for c in solved}
    if codes & {"FC101", "FC102"}:
        return ["outputs: the model did not run before; --like REFERENCE compares it with one that does"]
    if "SI101" in codes:
        return ["outputs: others than before, as Cells run that never ran; --like REFERENCE compares them"]
    source, target = read(old, inputs, options), read(new, inputs, options)
    report = compare(source, target, None, own=True, copy=True)
    if not report.passed:
        raise _refused("it computed", report)
    return [f"outputs: unchanged, {report.summary()}"]


def _compared(reference: Graph, graph: Graph) -> Report:
    """Return a comparison with a reference, of a training step too where both can make one."""
    if can_train(reference) and can_train(graph):
        try:
            return compare(reference, graph, None, own=True, copy=True, train=True)
        except ModelError:  # one that draws random numbers, or has no batch: its outputs are compared
            pass
    return compare(reference, graph, None, own=True, copy=True)


def _improved(
    reference: Graph,
    model: tuple[Path, str],
    text: bytes,
    before: Report,
    unlike: Sequence[Change],
    given: tuple[Inputs, LoadOptions],
) -> Report | None:
    """Return the comparison of an edited file with a reference; None where the edits make nothing better.

    Args:
        reference: what the file is to be like.
        model: the file and the model in it.
        text: the edited file.
        before: the comparison of the file without those edits.
        unlike: what it found.
        given: the inputs, and how models are loaded.
    """
    path, name = model
    with _beside(path, text) as copy:
        try:
            compile(text, str(path), "exec")
            after = _compared(reference, read(f"{copy}:{name}", *given))
        except (RegraftError, SyntaxError):
            return None
        known, left = (
            {(c.code, c.modules) for c in found if c.code != OTHERWISE}
            for found in (unlike, differences(after, copy, path))
        )
    worse = _agrees(before) and not _agrees(after)
    return None if worse or not (after.passed or left < known) else after


def _agrees(report: Report) -> bool:
    return all(row.passed for row in report.outputs)


def _as_reference(report: Report, like: str, *, whole: bool) -> str:
    """Describe the proof about the outputs, with a reference.

    Args:
        report: the comparison.
        like: the reference.
        whole: whether nothing was edited to be like it, so that all of the edit is to compute what it does.

    Raises:
        ModelError: when they are not the reference's.
    """
    if not report.passed:
        if whole:
            raise _refused(f"`{like}` computes", report)
        return f"outputs: not yet those of {like}, {report.summary()}"
    return f"outputs: those of {like}, {report.summary()}"


def _refused(what: str, report: Report) -> ModelError:
    verdict = " ".join(report.render(brief=True).split("\n\n")[0].split())
    return ModelError(
        "E102", f"the edited file does not compute the same as {what}: {verdict}", hint="nothing was written"
    )


def _diff(before: bytes, after: bytes, name: str) -> Iterator[str]:
    old, new = (t.decode("utf-8", "replace").splitlines(keepends=True) for t in (before, after))
    return difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")


def _free(path: Path) -> Path:
    """Return a name for the backup that no file has."""
    number = 0
    while True:
        found = path.with_name(f"{path.name}.orig{number or ''}")
        if not found.exists() and not found.is_symlink():
            return found
        number += 1
