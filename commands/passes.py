"""`regraft passes` and `regraft explain`: what there is, and what it means."""

from __future__ import annotations

import click

from .completion import CodeOrPass
from .language import say
from .loading import TARGET
from .printing import add_row, console, echo_text, print_json, report_errors, table_of


@click.command(short_help="List the passes.")
@click.option(
    "--to", "target", type=TARGET, help="Also list the passes that run only for this target, in order."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
def passes(target: str | None, as_json: bool) -> None:
    """List the passes: those of the default pipeline in order, then the others."""
    from .. import api
    from ..api import targets
    from ..passes import default_pipeline

    run = [p.name for p in default_pipeline()]
    known = {p.name: p for p in api.available_passes()}
    if target is not None:
        further = targets.target_passes(target)
        run += [p.name for p in further]
        known |= {p.name: type(p) for p in further}
    rows = [(n, str(at), _first_line(known[n])) for at, n in enumerate(run, 1)]
    rows += [(n, "", _first_line(known[n])) for n in sorted(known) if n not in run]
    if as_json:
        print_json([{"name": n, "position": int(p) if p else None, "summary": s} for n, p, s in rows])
        return
    table = table_of("pass", "order" if target else "default", "what it does")
    for row in rows:
        add_row(table, *row[:-1], say(row[-1]))
    console().print(table)


@click.command(short_help="Explain a pass or a code; list all codes.")
@click.argument("name", type=CodeOrPass(), required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
@click.pass_context
def explain(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """Explain a pass, a finding's code or an error's code; without a NAME, list every code, one per line."""
    from ..api.explanations.lookup import describe, explain, known_codes

    with report_errors(ctx):
        if as_json:
            print_json(known_codes() if name is None else _explained(name))
            return
        if name is not None:
            found = explain(name)
            echo_text((describe(name) if found is None else found.render(say)).rstrip())
            return
        for title, codes in known_codes().items():
            echo_text(f"{say(title)}:")
            for code, meaning in sorted(codes.items()):
                echo_text(f"  {code}  {say(meaning)}")


def _explained(name: str) -> dict[str, str]:
    """Return the explanation of a pass or a code by its parts."""
    from ..api.explanations.lookup import describe, explain

    found = explain(name)
    if found is None:
        return {"pass": name, "text": describe(name)}
    page = found.page
    parts = {"cause": page.cause, "example": page.example, "fix": page.fix, "found_by": found.found_by}
    return {"code": found.code, "meaning": found.meaning, **parts}


def _first_line(of: object) -> str:
    return (of.__doc__ or "").strip().splitlines()[0]
