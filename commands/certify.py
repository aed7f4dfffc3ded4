"""`regraft certify`: write a certificate that two models compute the same, and check it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .completion import ModelName
from .loading import MODEL_HELP, Loading, load, model_options
from .printing import doing, echo, print_json, print_verdict, report_errors

if TYPE_CHECKING:
    from ..verification.certificate import Certified

_SHOWN = 8


@click.command(epilog=MODEL_HELP, short_help="Certify that two models compute the same, exactly.")
@click.argument("source", type=ModelName())
@click.argument("target", type=ModelName())
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("certificate.json"),
    show_default=True,
    help="The file of the certificate; its tensors go into a file of safetensors beside it.",
)
@click.option("--seed", type=int, help="Seed of the check, which draws its primes afresh by default.")
@click.option(
    "--units",
    type=click.FloatRange(0.5, 64),
    default=0.5,
    show_default=True,
    help="Most units in the last place by which a folded constant may differ from its exact value.",
)
@model_options
@click.option("-v", "--verbose", is_flag=True, help="Show the grade of every module call.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def certify(
    ctx: click.Context,
    source: str,
    target: str,
    output: Path,
    seed: int | None,
    units: float,
    loading: Loading,
    verbose: bool,
    as_json: bool,
) -> None:
    """Certify that SOURCE (a MODEL) and TARGET (a MODEL, or a directory that regraft wrote) compute the same.

    Both are read as graphs and evaluated exactly in prime fields, where nothing is rounded: no tolerance
    decides. The certificate holds both graphs and their tensors; regraft-recheck, one file that needs NumPy
    alone, checks it again anywhere.

    Exit code 1 if an output is not certified; that proves no difference, and regraft verify compares the
    models as they run.

    RUNS CODE: that of a MODEL named as file.py:Name, and model.py of an emitted directory.
    """
    from ..api.certificates import certify as certify_models
    from ..verification.verify_written import require_target

    with report_errors(ctx):
        require_target(target)
        graph = load(source, loading)
        with doing(f"certifying {target}"):
            certified = certify_models(
                graph, target, output=output, seed=seed, units=units, trust=loading.trust
            )
        if as_json:
            print_json(certified.to_json())
        else:
            print_certified(certified, verbose=verbose)
            for file in certified.files:
                echo(f"wrote {file}")
        ctx.exit(0 if certified.passed else 1)


def print_certified(certified: Certified, *, verbose: bool = False) -> None:
    """Print the verdict of a certificate, and what is not certified."""
    report = certified.report
    print_verdict(_verdict(certified))
    for name, meaning in report["axioms"].items():
        echo(f"axiom {name}: {meaning}")
    counts = ", ".join(f"{count} {grade}" for grade, count in report["counts"].items())
    if counts:
        echo(f"module calls: {counts}")
    for row in report["outputs"]:
        if not row["equal"]:
            echo(f"not certified: output `{row['name']}`")
    open_ = [row for row in report["modules"] if verbose or row["grade"] in ("different", "tested")]
    for row in open_ if verbose else open_[:_SHOWN]:
        echo(f"  {row['grade']:<10} {row['call']}  {'; '.join(row['why'])}".rstrip())
    if len(open_) > _SHOWN and not verbose:
        echo(f"  and {len(open_) - _SHOWN} more; -v shows them")
    for name, why in list(report["refused"].items())[:_SHOWN]:
        echo(f"constant {name}: {why}")


def _verdict(certified: Certified) -> str:
    """Return the first line of the report."""
    report, grade = certified.report, certified.grade
    rounded = (
        f"{report['constants']} rounded constants, {report['units']:.2f} units in the last place at most"
    )
    if not certified.passed:
        return "NOT CERTIFIED: `regraft verify` compares what the two compute"
    if grade == "identical":
        return "CERTIFIED: the same operators on the same constants"
    if grade == "algebraic":
        return "CERTIFIED: equal exactly, as algebra"
    if grade == "folded":
        return f"CERTIFIED: equal exactly, but for {rounded}"
    axioms = ", ".join(report["axioms"])
    if report["constants"]:
        return f"CERTIFIED: equal exactly, but for {rounded}, and axioms: {axioms}"
    return f"CERTIFIED: equal exactly by axioms: {axioms}"
