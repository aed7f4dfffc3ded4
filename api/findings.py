"""Checking: what is wrong with a model, or with all models of a file, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..diagnosis import (
    CODES,
    Subject,
    Wanted,
    add_advice,
    cannot_run,
    diagnose,
    drop_repeated,
    files_of,
    find_silenced,
    find_traps,
    find_uses,
    names_in,
    release_of,
    sort_findings,
)
from ..frontends import Inputs, LoadOptions, read, read_tree, resolve
from ..frontends.python_file import run_file
from ..ir import CODES as OF_ERRORS
from ..ir import (
    Graph,
    ModelError,
    RegraftError,
    UnsupportedError,
    folded_markup,
    table_markup,
    text_markup,
)
from ..passes import PASSES, default_pipeline, run_passes
from ..passes.base import Change
from ..process.entry import public_call

_ALL = Wanted()


def codes() -> set[str]:
    """Return the codes that a finding may have."""
    return {*CODES, *OF_ERRORS, *(code for cls in PASSES.values() for code in cls.codes)}


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of `check`: iterate over it for the findings.

    Attributes:
        findings: what the passes would change or report and what the diagnosis found, the worst first.
        skipped: names of the rules that could not run, and why.
        notes: what the graph does not show of the model, or shows otherwise.
        silenced: how many findings a comment at their line silences.
        files: name of a file, as findings have it -> the file.
    """

    findings: list[Change] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    silenced: int = 0
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether nothing worse than a note was found."""
        return all(f.severity == "note" for f in self.findings)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def _repr_html_(self) -> str:
        """Return the findings as a table, as notebooks show them."""
        count = f"{len(self)} finding{'' if len(self) == 1 else 's'}"
        rows = [(f.severity, f.code, f.message, f.place, f.advice) for f in self.findings]
        table = table_markup(("", "code", "finding", "at", "write"), rows) if rows else ""
        told = [f"skipped {rule}: {why}" for rule, why in self.skipped.items()]
        told += [f"note: {note}" for note in self.notes]
        return text_markup(count, "strong") + table + "".join(text_markup(line, "p") for line in told)


@dataclass(frozen=True, slots=True)
class FileFindings:
    """The result of `check_file`.

    Attributes:
        models: name -> what was found in it.
        left_out: name -> why it was not examined.
    """

    models: dict[str, Findings] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether nothing worse than a note was found in any."""
        return all(found.clean for found in self.models.values())

    def _repr_html_(self) -> str:
        """Return the findings for each model, those with findings opened, as notebooks show them."""
        parts = [
            folded_markup(name, found._repr_html_(), opened=not found.clean)
            for name, found in sorted(self.models.items(), key=lambda row: row[1].clean)
        ]
        parts += [text_markup(f"{name}: left out: {why}", "p") for name, why in self.left_out.items()]
        return "".join(parts)


def wanted(ported_from: str, select: Sequence[str], ignore: Sequence[str], release: str) -> Wanted:
    """Return the findings that a caller selects; see `api.check`."""
    return Wanted(ported_from, tuple(select), tuple(ignore), release_of(release) if release else "")


@public_call()
def check(model: object, inputs: Inputs, options: LoadOptions, wanted: Wanted = _ALL) -> Findings:
    """Return the findings of the diagnosis and the passes for a graph or a model; see `api.check`."""
    wanted.refuse_unknown(codes())
    return _examined(model, inputs, options, wanted)[0]


def _examined(model: object, inputs: Inputs, options: LoadOptions, wanted: Wanted) -> tuple[Findings, Graph]:
    """Return the findings for a model, and its graph or static part."""
    if isinstance(model, Graph):
        return _of_graph(model, None, Subject(model), [], wanted), model
    reference = model if isinstance(model, str) else ""
    _, found = resolve(model, options)
    live = not isinstance(found, (str, Path))
    subject, causes = None, []
    if live:
        options = replace(options, own=found is not model)
        subject = _before_any_run(found, options, reference)
        broken = "" if subject is None else cannot_run(subject)
        if subject is not None and broken:
            subject.graph.origin.reference = reference or subject.graph.origin.reference
            stopped = f"the model cannot run ({broken})"
            return _of_graph(subject.graph, None, subject, diagnose(subject), wanted, stopped), subject.graph
    graph, failure = _captured_or_tree(found if live else model, inputs, options)
    if live:
        graph.origin.reference = reference or graph.origin.reference
        subject = Subject(graph, reference)
        causes = diagnose(subject)  # which calls were recorded is known now
    return _of_graph(graph, failure, subject or Subject(graph, reference), causes, wanted), graph


def _before_any_run(model: object, options: LoadOptions, reference: str) -> Subject | None:
    """Return what a live model's tree states; None for one whose lazy layers wait for a first run."""
    try:
        return Subject(read_tree(model, options), reference)
    except ModelError as error:
        if error.code != "E104" or not options.own:
            raise
        return None


@public_call()
def check_file(path: str | Path, inputs: Inputs, options: LoadOptions, wanted: Wanted = _ALL) -> FileFindings:
    """Check every Cell and Module of a file: instances, and classes whose constructors need no arguments.

    Args:
        path: a Python file, which is run.
        inputs: as in `api.load`; for all models of the file.
        options: how to load them.
        wanted: which findings.

    Raises:
        ModelError: when the file raises before it defines anything, or defines no model; not with a release,
            whose uses are read off the text.
    """
    wanted.refuse_unknown(codes())
    result = FileFindings()
    if wanted.release:  # the whole file may be a script without a model, or raise by what is removed
        result.models[Path(path).name] = uses_in(Path(path), wanted)
    try:
        module = run_file(str(path))
    except ModelError as error:
        if not wanted.release or not Path(path).is_file():
            raise
        result.left_out["models"] = str(error).partition("\n")[0]
        return result
    names = names_in(module)
    if not names and not wanted.release:
        raise ModelError("E102", "expected a Cell or Module in the file, got none", place=str(path))
    inside: dict[str, str] = {}
    told = {(c.code, c.place, c.message) for each in result.models.values() for c in each}
    made = [n for n in names if not n.left_out]
    classes = [n for n in made if isinstance(vars(module)[n.name], type)]
    instances = [n for n in made if n not in classes]
    for row in [*instances, *reversed(classes)]:  # classes that others are made of stand above those
        if row.name in inside:
            continue
        try:
            found, graph = _examined(f"{path}:{row.name}", inputs, options, wanted)
        except ModelError as error:
            result.left_out[row.name] = str(error).partition("\n")[0]
            continue
        fresh = [c for c in found if (c.code, c.place, c.message) not in told]
        told |= {(c.code, c.place, c.message) for c in fresh}
        result.models[row.name] = replace(found, findings=fresh)
        for module in graph.modules:
            if module is not graph.modules.root:
                inside.setdefault(module.class_name, row.name)
    for row in names:
        if row.name in result.models or row.name in result.left_out:
            continue
        where = inside.get(row.name)
        result.left_out[row.name] = f"examined in `{where}`" if where else row.left_out
    return result


def _captured_or_tree(
    model: object, inputs: Inputs, options: LoadOptions
) -> tuple[Graph, RegraftError | None]:
    """Return the lowered model or, if that fails, its static part and the reason (None: no inputs)."""
    try:
        return read(model, inputs, options), None
    except UnsupportedError as error:
        failure = error
    except ModelError as error:
        missing = error.code == "E103" and inputs is None
        if not missing and error.code != "E104":
            raise
        failure = None if missing else error
    return read_tree(model, options), failure


def _of_graph(
    graph: Graph,
    failure: RegraftError | None,
    subject: Subject,
    causes: list[Change],
    wanted: Wanted,
    stopped: str = "",
) -> Findings:
    pipeline = default_pipeline()
    skipped = {p.name: why for p in pipeline if (why := p.skipped(graph))}
    found = list(causes)
    if failure is not None:
        cause = _cause_of(failure, causes)
        text = str(failure).removeprefix(f"{failure.code} ")
        text = f"symptom of {cause}: {text.partition(chr(10))[0]}" if cause else text
        found.append(Change(failure.code, text, severity="note" if cause else "error", fixed=False))
        stopped = f"the model could not be lowered ({cause or failure.code})"
    if stopped:
        skipped = dict.fromkeys(skipped, stopped)
    for _, changes in run_passes(graph.copy(), [p for p in pipeline if p.name not in skipped]):
        found += changes
    if wanted.ported_from:
        found += find_traps(subject)
        if subject.framework != "mindspore":
            skipped["traps of porting"] = f"a model of {subject.framework} is not a port to MindSpore"
    files = files_of(subject)
    if wanted.release:
        found += [use.change for use in find_uses(files.values(), wanted.release)]
    found = [c for c in sort_findings(subject, add_advice(subject, drop_repeated(found))) if c in wanted]
    silent = find_silenced(files, found)
    kept = [c for c in found if c not in silent]
    return Findings(kept, skipped, _notes(graph, causes), len(silent), files)


def uses_in(path: Path, wanted: Wanted) -> Findings:
    """Return the uses in a file that a release of MindSpore removes or changes; the file is not run."""
    found = [use.change for use in find_uses([path], wanted.release)]
    found = sorted(
        (c for c in found if c in wanted), key=lambda c: ("error", "warning", "note").index(c.severity)
    )
    files = {path.name: path}
    silent = find_silenced(files, found)
    return Findings([c for c in found if c not in silent], silenced=len(silent), files=files)


def _cause_of(failure: RegraftError, causes: Sequence[Change]) -> str:
    """Return the code of the finding by which a model could not be lowered; empty where none explains it."""
    for change in causes:
        named = change.place and change.place in str(failure)
        if change.code in ("NP101", "TL102") and (failure.code == "E104" or named):
            return change.code
    return ""


def _notes(graph: Graph, causes: list[Change]) -> list[str]:
    """Return the graph's notes, without those that a finding says too."""
    listed = {path for change in causes if change.code in ("PL101", "PL102") for path in change.modules}
    notes = [note for note in graph.origin.notes if not any(f"`{path}`" in note for path in listed)]
    return [*notes, *graph.origin.unreliable]
