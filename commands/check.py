"""`regraft check`: say what is wrong with a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .completion import ModelName
from .loading import MODEL_HELP, Loading, model_options
from .printing import change_rows, doing, echo, print_changes, print_json, print_verdict, report_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api.findings import FileFindings, Findings


@click.command(epilog=MODEL_HELP, short_help="Report the faults of MODEL, with lines and fixes.")
@click.argument("models", type=ModelName(), nargs=-1, required=True, metavar="MODEL...")
@model_options
@click.option(
    "--from",
    "ported_from",
    type=click.Choice(["torch"]),
    help="Also report the traps in a MindSpore net ported from this framework: calls whose meaning differs.",
)
@click.option(
    "--for",
    "release",
    type=click.Choice(["installed", "2.9", "2.10", "2.11"]),
    help="Also report what this release of MindSpore removes, changes or marks for removal.",
)
@click.option(
    "--select", metavar="CODES", help="Report only findings whose codes start with these, e.g. PT,RP101."
)
@click.option("--ignore", metavar="CODES", help="Leave out findings whose codes start with these.")
@click.option("-v", "--verbose", is_flag=True, help="List every item that a finding counts, and every note.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on standard output.")
@click.option(
    "--output-format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="github: annotations of GitHub Actions; sarif: SARIF 2.1.0, for code scanning; json: as --json.",
)
@click.option(
    "--if-any",
    is_flag=True,
    help="Skip .py files that mention no Cell or Module, without running them: for lists of files.",
)
@click.pass_context
def check(
    ctx: click.Context,
    models: tuple[str, ...],
    loading: Loading,
    ported_from: str | None,
    release: str | None,
    select: str | None,
    ignore: str | None,
    verbose: bool,
    as_json: bool,
    form: str,
    if_any: bool,
) -> None:
    """Report the faults of MODEL: the cause, its line, and the fix to write (exit code 1 if there are any).

    For a .py file without a name, regraft checks every Cell and Module in it. EITHER WAY THE FILE IS RUN; if
    it raises, regraft checks the objects that it made before. Without --input only the static rules run, and
    the report lists those skipped. A comment `# regraft: ignore[PT101]` at a line silences that finding
    there, `# regraft: ignore` every one.
    """
    from .. import api

    wanted = {
        "ported_from": ported_from or "",
        "release": release or "",
        "select": _codes(select),
        "ignore": _codes(ignore),
    }

    ctx.params["as_json"] = as_json = as_json or form == "json"  # an error is a document then too
    with report_errors(ctx):
        given, options = loading.parse_inputs(), loading.options()
        found: dict[str, Findings | FileFindings] = {}
        for model in models:
            if if_any and model.endswith(".py") and not _names_a_model(model):
                continue
            with doing(f"checking {model}"):
                look = api.check_file if model.endswith(".py") else api.check
                found[model] = look(model, given, **wanted, **options)
        if form in ("github", "sarif"):
            _print_for_machines(found, form)
        elif as_json:
            documents = {model: _document(each) for model, each in found.items()}
            clean = all(each.clean for each in found.values())
            one = len(models) == 1 and documents
            print_json(documents[models[0]] if one else {"clean": clean, "checked": documents})
        else:
            for model, each in found.items():
                _print_one(each, "" if len(models) == 1 else f"{model}: ", verbose=verbose)
        ctx.exit(0 if all(each.clean for each in found.values()) else 1)


def _names_a_model(path: str) -> bool:
    """Whether a file may define a Cell or Module, by its text; one that cannot be read is looked at."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return re.search(r"\b(?:\w*Cell|\w*Module|Sequential)\b", text) is not None


def _print_for_machines(found: Mapping[str, Findings | FileFindings], form: str) -> None:
    from importlib.metadata import version

    from ..api.explanations.lookup import known_codes
    from .finding_formats import github_lines, rows_of, sarif

    rows = [
        row
        for model, each in found.items()
        for row in rows_of(
            getattr(each, "models", {"": each}),
            model if model.endswith(".py") else model.rpartition(":")[0] or model,
        )
    ]
    if form == "sarif":
        meanings = {code: text for codes in known_codes().values() for code, text in codes.items()}
        print_json(sarif(rows, meanings, version("regraft")))
        return
    for line in github_lines(rows):
        print_verdict(line)


def _codes(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(code.strip().upper() for code in text.split(","))


def _verdict(findings: Findings) -> str:
    worst = sum(f.severity != "note" for f in findings)
    return f"{worst} finding{'s' if worst != 1 else ''}" if worst else "clean"


def _print(findings: Findings, *, verbose: bool) -> None:
    print_changes(findings.findings, verbose=verbose)
    reasons: dict[str, list[str]] = {}
    for name, why in findings.skipped.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        echo(f"skipped {', '.join(names)}: {why}")
    if findings.silenced:
        echo(f"silenced by comments: {findings.silenced}")
    for note in findings.notes:
        echo(f"note: {note}")


def _as_json(findings: Findings) -> dict[str, object]:
    return {
        "clean": findings.clean,
        "findings": change_rows(findings.findings),
        "skipped": findings.skipped,
        "notes": findings.notes,
        "silenced": findings.silenced,
    }


def _document(found: Findings | FileFindings) -> dict[str, object]:
    """Return the findings for a model, or for the models of a file with those left out, as JSON."""
    from ..api.findings import FileFindings

    if not isinstance(found, FileFindings):
        return _as_json(found)
    documents = {name: _as_json(findings) for name, findings in found.models.items()}
    return {"clean": found.clean, "models": documents, "left_out": found.left_out}


def _print_one(found: Findings | FileFindings, label: str, *, verbose: bool) -> None:
    """Print the findings for a model, or for the models of a file, broken ones first."""
    from ..api.findings import FileFindings

    if not isinstance(found, FileFindings):
        print_verdict(f"{label}{_verdict(found)}")
        _print(found, verbose=verbose)
        return
    for name, findings in sorted(found.models.items(), key=lambda row: row[1].clean):
        print_verdict(f"{label}{name}: {_verdict(findings)}")
        _print(findings, verbose=verbose)
    for name, why in found.left_out.items():
        echo(f"{label}{name}: left out: {why}")
