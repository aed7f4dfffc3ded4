"""The command line: the only file that prints, reads the environment or exits.

Exit codes: 0 done or clean; 1 findings, or a target that computes something else; 2 an error of the user's
model, input or arguments; 3 a fault of regraft's own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .api import Change, Diff, Report, Rewritten
    from .ir import Graph

MODEL_HELP = (
    "MODEL is file.py:Name or package.module:Name (a class, a factory or an instance; NAMING ONE RUNS "
    "ITS CODE), x-symbol.json (MXNet) or x.pt2 (torch.export); the latter two execute nothing."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="regraft")
@click.option("--debug", is_flag=True, help="Show a traceback with every error.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """Rewrite neural-network models between frameworks, and prove the rewrite is the same model."""
    ctx.obj = {"debug": debug}
    # MindSpore's convolutions are 10 to 100 times slower without this on AVX-512 machines
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    os.environ.setdefault("GLOG_v", "4")  # its errors reach the user as ours, with file and line


def run() -> None:
    """Console entry: turns errors into messages and exit codes."""
    code = 0
    try:
        result = main.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except click.ClickException as error:
        error.show()
        code = 2
    except click.exceptions.Abort:
        click.echo("aborted", err=True)
        code = 2
    except BrokenPipeError:
        code = 0
    except Exception as error:  # the last line of defence: a fault of ours, said plainly
        code = 3
        click.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        click.echo("hint: this is a fault in regraft; run again with --debug for the traceback", err=True)
        if "--debug" in sys.argv:
            raise
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    if "mindspore" in sys.modules:
        os._exit(code)  # MindSpore's Cells print a complaint each when the interpreter tears them down
    sys.exit(code)


# -- options that every MODEL has --------------------------------------------------------------------


@dataclass(frozen=True)
class Loading:
    """What the options of a MODEL say."""

    inputs: tuple[str, ...]
    params: Path | None
    arguments: tuple[str, ...]
    dynamic: tuple[str, ...]
    no_dynamic_batch: bool

    def given(self) -> list[str] | dict[str, object] | None:
        """The --input options as `api.load` takes them: by name when every one has a name."""
        from .api import InputSpec

        specs = [InputSpec.parse(text) for text in self.inputs]
        if specs and all(s.name for s in specs):
            return {s.name: s for s in specs}
        return list(self.inputs) or None

    def constructor(self) -> dict[str, object]:
        """The --arg options: Python literals, else text."""
        import ast

        from .ir import UsageError

        built: dict[str, object] = {}
        for text in self.arguments:
            name, equals, value = text.partition("=")
            if not equals or not name.isidentifier():
                raise UsageError("E001", f"expected --arg NAME=VALUE, got `{text}`")
            try:
                built[name] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                built[name] = value
        return built

    def axes(self) -> dict[str, list[int]] | None:
        """The --dynamic options: input name -> axes."""
        from .ir import UsageError

        axes: dict[str, list[int]] = {}
        for text in self.dynamic:
            name, colon, which = text.rpartition(":")
            if not colon or not all(a.isdigit() for a in which.split("+")):
                raise UsageError("E001", f"expected --dynamic INPUT:AXIS, got `{text}`")
            axes.setdefault(name, []).extend(int(a) for a in which.split("+"))
        return axes or None

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `api.load`."""
        return {
            "params": self.params,
            "dynamic_batch": not self.no_dynamic_batch,
            "dynamic": self.axes(),
            "arguments": self.constructor(),
        }


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a MODEL is loaded; the command gets them as one `loading`."""

    @wraps(command)
    def collected(*args: Any, **values: Any) -> Any:
        loading = Loading(**{field.name: values.pop(field.name) for field in fields(Loading)})
        return command(*args, loading=loading, **values)

    for option in reversed(
        [
            click.option(
                "--input",
                "inputs",
                multiple=True,
                metavar="[NAME=]SHAPE[:DTYPE]",
                help="Example input, e.g. 2x3x224x224 or ids=2x16:int64 (default float32); repeat.",
            ),
            click.option(
                "--params", type=click.Path(path_type=Path), help="Parameter file, if not beside the model."
            ),
            click.option(
                "--arg",
                "arguments",
                multiple=True,
                metavar="NAME=VALUE",
                help="Constructor argument of MODEL; repeat.",
            ),
            click.option(
                "--dynamic",
                multiple=True,
                metavar="INPUT:AXIS[+AXIS]",
                help="Axes that stay symbolic, instead of axis 0 of what shares the batch; repeat.",
            ),
            click.option("--no-dynamic-batch", is_flag=True, help="Keep the example's batch size fixed."),
        ]
    ):
        collected = option(collected)
    return collected


@contextmanager
def _reported(ctx: click.Context) -> Iterator[None]:
    """Turn our errors into one message and exit code 2 (1 for a mismatch)."""
    from .ir import MismatchError, RegraftError

    try:
        yield
    except RegraftError as error:
        if ctx.obj and ctx.obj.get("debug"):
            raise
        report = getattr(error, "report", None)
        if report is not None:
            _print_report(report)
        click.echo(f"{click.style('error', fg='red', bold=True)} {error}", err=True)
        ctx.exit(1 if isinstance(error, MismatchError) else 2)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """A spinner on a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def _load(model: str, loading: Loading) -> Graph:
    from . import api

    with _doing(f"loading {model}"):
        return api.load(model, loading.given(), **loading.options())


# -- commands ------------------------------------------------------------------------------------------


@main.command(epilog=MODEL_HELP)
@click.argument("model")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on standard output.")
@click.pass_context
def check(
    ctx: click.Context,
    model: str,
    loading: Loading,
    as_json: bool,
) -> None:
    """Say what is wrong with MODEL (exit code 1 when something is).

    Without --input only the static rules run, and those skipped are listed.
    """
    from . import api

    with _reported(ctx):
        with _doing(f"checking {model}"):
            findings = api.check(model, loading.given(), **loading.options())
        if as_json:
            _print_json(
                {
                    "clean": findings.clean,
                    "findings": _change_rows(findings.findings),
                    "skipped": findings.skipped,
                }
            )
        else:
            _print_changes(findings.findings)
            for name, why in findings.skipped.items():
                click.echo(f"skipped {name}: {why}")
            worst = sum(f.severity != "note" for f in findings)
            click.echo(f"{worst} finding{'s' if worst != 1 else ''}" if worst else "clean")
        ctx.exit(0 if findings.clean else 1)


@main.command(epilog=MODEL_HELP)
@click.argument("model")
@model_options
@click.option("--ir", is_flag=True, help="Print the graph in the IR's text form instead.")
@click.option("--depth", type=click.IntRange(0), help="Show modules down to this depth only.")
@click.option("--json", "as_json", is_flag=True, help="The table as JSON on standard output.")
@click.pass_context
def show(
    ctx: click.Context,
    model: str,
    loading: Loading,
    ir: bool,
    depth: int | None,
    as_json: bool,
) -> None:
    """Show MODEL's layers: path, class, output shape, parameters counted once, sharing and unused marked."""
    from . import api
    from .ir import render
    from .ir.summary import summarise

    with _reported(ctx):
        if loading.inputs or model.endswith((".json", ".pt2")):
            graph = _load(model, loading)
        else:
            graph = api.load_tree(model, params=loading.params, arguments=loading.constructor())
            click.echo("without --input the table has no shapes and no calls", err=True)
        if ir:
            click.echo(render(graph), nl=False)
            return
        summary = summarise(graph, depth)
        rows = summary.rows
        if as_json:
            _print_json(
                {
                    "modules": [
                        {
                            "path": r.path,
                            "class": r.class_name,
                            "calls": r.calls,
                            "output": None if r.output is None else str(r.output),
                            "parameters": r.parameters,
                            "buffers": r.buffers,
                            "aliases": list(r.aliases),
                            "notes": list(r.notes),
                        }
                        for r in rows
                    ],
                    "trainable": summary.trainable,
                    "used": summary.used,
                    "buffers": summary.buffers,
                }
            )
            return
        table = _table("path", "class", "output", ">parameters", "notes")
        for row in rows:
            table.add_row(
                row.path or "(root)",
                row.class_name,
                "" if row.output is None else str(row.output),
                f"{row.parameters:,}" if row.parameters else "",
                "; ".join(row.notes),
            )
        _console().print(table)
        unused = summary.trainable - summary.used
        click.echo(
            f"{summary.trainable:,} trainable parameters, each counted once"
            + (f": {summary.used:,} used, {unused:,} never used" if unused else "")
            + (f"; {summary.buffers:,} elements of other state" if summary.buffers else "")
        )
        for note in graph.origin.notes:
            click.echo(f"note: {note}")


@main.command(epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="A directory, or an .onnx file."
)
@click.option(
    "--to",
    "target",
    type=click.Choice(["mindspore", "onnx", "mxnet"]),
    help="Inferred from OUT where it can be.",
)
@click.option(
    "--pass", "extra", multiple=True, metavar="NAME[:OPTIONS]", help="Run after the default passes; repeat."
)
@click.option(
    "--only-pass",
    "only",
    multiple=True,
    metavar="NAME[:OPTIONS]",
    help="Run instead of the default passes; repeat.",
)
@click.option(
    "--checkpoint-format", type=click.Choice(["ckpt", "safetensors"]), help="Of a MindSpore output."
)
@click.option("--no-verify", is_flag=True, help="Do not compare the output with the source.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--verify-each", is_flag=True, help="Validate the graph after every pass.")
@click.option("--print-after", metavar="PASS", help="Print the graph after that pass.")
@model_options
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on standard output.")
@click.pass_context
def rewrite(
    ctx: click.Context,
    model: str,
    output: Path,
    target: str | None,
    extra: tuple[str, ...],
    only: tuple[str, ...],
    checkpoint_format: str | None,
    no_verify: bool,
    force: bool,
    verify_each: bool,
    print_after: str | None,
    loading: Loading,
    as_json: bool,
) -> None:
    """Rewrite MODEL and write it to OUT, compared with the source module by module.

    Options of a pass follow its name: --pass tie-weights:tie=embed.weight+head.weight,twin=data+data2
    """
    from . import api

    with _reported(ctx):
        passes = [api.parse_pass(p) for p in only] if only else api.default_pipeline()
        passes = [*passes, *(api.parse_pass(p) for p in extra)]
        graph = _load(model, loading)
        with _doing("rewriting"):
            rewritten = _rewrite(graph, passes, verify_each, print_after)
        options = {"checkpoint_format": checkpoint_format} if checkpoint_format else {}
        with _doing("writing" if no_verify else "writing and verifying"):
            files, report = api.rewrite_file(
                graph, rewritten, output, target, verified=not no_verify, force=force, **options
            )
        if as_json:
            _print_json(
                {
                    "files": [str(f) for f in files],
                    "changes": _change_rows(rewritten.changes),
                    "verified": None if report is None else report.to_json(),
                }
            )
            return
        _print_changes(rewritten.changes, rewritten=True)
        for note in graph.origin.notes:
            click.echo(f"note: {note}")
        if report is not None:
            _print_report(report, brief=True)
        for file in files:
            click.echo(f"wrote {file}")


def _rewrite(graph: Graph, passes: list, verify_each: bool, print_after: str | None) -> Rewritten:
    """`api.rewrite`, with the graph printed after one pass where asked."""
    from . import api
    from .ir import PassError, render

    if print_after is None:
        return api.rewrite(graph, passes, verify_each=verify_each)
    names = [p.name for p in passes]
    if print_after not in names:
        raise PassError("E502", f"expected a pass of the pipeline ({', '.join(names)}), got `{print_after}`")
    at = names.index(print_after) + 1
    first = api.rewrite(graph, passes[:at], verify_each=verify_each)
    click.echo(render(first.graph), nl=False)
    second = api.rewrite(first.graph, passes[at:], verify_each=verify_each)
    return api.Rewritten(second.graph, [*first.changes, *second.changes], second.renames)


@main.command(epilog=MODEL_HELP)
@click.argument("source")
@click.argument("target")
@model_options
@click.option(
    "--train",
    is_flag=True,
    help="Compare one training step too: gradients, running statistics, values after SGD.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def verify(
    ctx: click.Context,
    source: str,
    target: str,
    loading: Loading,
    train: bool,
    as_json: bool,
) -> None:
    """Compare SOURCE (a MODEL) with TARGET (an .onnx file, an emitted directory, or a MODEL).

    Exit code 1 when they compute different things; the first module that diverges is named. --train takes
    PyTorch and MindSpore only, and refuses a model that trains differently in more than Dropout and batch
    statistics.
    """
    from . import api

    with _reported(ctx):
        graph = _load(source, loading)
        with _doing(f"verifying {target}"):
            report = api.verify(graph, target, train=train)
        if as_json:
            _print_json(report.to_json())
        else:
            _print_report(report)
        ctx.exit(0 if report.passed else 1)


@main.command("convert-checkpoint")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--map",
    "map_",
    required=True,
    type=click.Path(path_type=Path),
    help="The renames.json beside the rewritten model.",
)
@click.option(
    "--forward/--reverse",
    "forward",
    default=None,
    help="From the map's source to its target, or back; told by SOURCE's names where not given.",
)
@click.option("--force", is_flag=True, help="Replace TARGET.")
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on standard output.")
@click.pass_context
def convert_checkpoint(
    ctx: click.Context,
    source: Path,
    target: Path,
    map_: Path,
    forward: bool | None,
    force: bool,
    as_json: bool,
) -> None:
    """Carry weights that were trained later from one framework's checkpoint to another's.

    SOURCE and TARGET are .ckpt, .safetensors, .params or .pth files (SOURCE also .onnx). Nothing but the map
    is read: the net is not built.
    """
    from . import api

    with _reported(ctx):
        with _doing(f"converting {source}"):
            done = api.convert_checkpoint(
                source, target, map_, reverse=None if forward is None else not forward, force=force
            )
        if as_json:
            _print_json(
                {
                    "file": str(done.path),
                    "direction": "reverse" if done.reverse else "forward",
                    "tensors": done.tensors,
                    "notes": done.notes,
                }
            )
            return
        for note in done.notes:
            click.echo(f"note: {note}")
        click.echo(f"wrote {done.path}: {done.tensors} tensors")


@main.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option(
    "--map", "map_", type=click.Path(path_type=Path), help="A renames.json whose two sides these are."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def diff(ctx: click.Context, first: Path, second: Path, map_: Path | None, as_json: bool) -> None:
    """Compare two checkpoints (.ckpt, .safetensors, .params, .pth, .onnx), tensor by tensor.

    Exit code 1 on any difference. Without --json, tensors that are equal are only counted.
    """
    from . import api

    with _reported(ctx):
        with _doing(f"comparing {first} and {second}"):
            report = api.diff(first, second, map_)
        if as_json:
            _print_json(report.to_json())
        else:
            _print_diff(report)
        ctx.exit(0 if report.equal else 1)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
def passes(as_json: bool) -> None:
    """List the passes: those of the default pipeline in order, then the others."""
    from . import api

    default = [p.name for p in api.default_pipeline()]
    known = {p.name: p for p in api.available_passes()}
    names = [*default, *sorted(n for n in known if n not in default)]
    rows = [(n, str(default.index(n) + 1) if n in default else "", _first_line(known[n])) for n in names]
    if as_json:
        _print_json([{"name": n, "position": int(p) if p else None, "summary": s} for n, p, s in rows])
        return
    table = _table("pass", "default", "what it does")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


@main.command()
@click.argument("name")
@click.pass_context
def explain(ctx: click.Context, name: str) -> None:
    """Explain a pass, a finding's code or an error's code."""
    from . import api
    from .ir import CODES

    with _reported(ctx):
        if name.upper() in CODES:
            click.echo(f"{name.upper()}: {CODES[name.upper()]}")
        else:
            click.echo(api.describe(name).rstrip())


# -- printing ------------------------------------------------------------------------------------------


def _first_line(of: object) -> str:
    return (of.__doc__ or "").strip().splitlines()[0]


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str))


def _change_rows(changes: list[Change]) -> list[dict[str, object]]:
    return [
        {"code": c.code, "severity": c.severity, "message": c.message, "place": c.place, "fixed": c.fixed}
        for c in changes
    ]


_COLOURS = {"error": "red", "warning": "yellow", "note": "blue", "fixed": "green"}
_NOTES_SHOWN = 3


def _print_changes(changes: list[Change], *, rewritten: bool = False) -> None:
    """One line a finding; of notes of one code only the first few.

    Args:
        changes: what the passes found or did.
        rewritten: whether the passes' result is what the user gets, so that faults are fixed ones.
    """
    notes: dict[str, int] = {}
    for change in changes:
        label = "fixed" if rewritten and change.fixed and change.severity != "note" else change.severity
        if label == "note":
            notes[change.code] = notes.get(change.code, 0) + 1
            if notes[change.code] > _NOTES_SHOWN:
                continue
        click.echo(f"{click.style(label, fg=_COLOURS[label], bold=True)} {change}")
    label = click.style("note", fg="blue", bold=True)
    for code, count in notes.items():
        if count > _NOTES_SHOWN:
            click.echo(f"{label} {code} and {count - _NOTES_SHOWN} more (--json lists all)")


def _table(*columns: str) -> Table:
    """A table with boxes on a terminal and bare columns in a pipe; ``>`` marks a right-aligned one."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left", overflow="fold")
    return table


def _print_diff(report: Diff) -> None:
    """The tensors that differ as a table, the others as a number."""
    changed = [r for r in report.rows if not r.equal]
    if changed:
        table = _table("tensor", "shape", "dtype", ">max abs", ">max rel", ">mean", ">std")
        for r in changed:
            table.add_row(
                r.name if r.name == r.other else f"{r.name} -> {r.other}",
                *(
                    str(left) if left == right else f"{left} -> {right}"
                    for left, right in ((list(r.shapes[0]), list(r.shapes[1])), r.dtypes)
                ),
                *("-" if v is None else f"{v:.2g}" for v in (r.max_abs, r.max_relative)),
                *(f"{left:.3g} -> {right:.3g}" for left, right in (r.means, r.stds)),
            )
        _console().print(table)
    for side, names in (("first", report.only_first), ("second", report.only_second)):
        for name in names:
            click.echo(f"only in the {side}: {name}")
    for name, other in report.elsewhere:
        click.echo(f"equal values under another name: {name} -> {other}")
    for note in report.notes:
        click.echo(f"note: {note}")
    alone = len(report.only_first) + len(report.only_second)
    count = f"{len(report.rows)} tensors compared, {len(changed)} differ, {alone} on one side only"
    click.echo(f"equal: {len(report.rows)} tensors compared" if report.equal else count)


def _print_report(report: Report, *, brief: bool = False) -> None:
    click.echo(report.render(brief=brief).rstrip())
