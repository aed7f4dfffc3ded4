"""`regraft rewrite`: rewrite a model and write it, compared with the source."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .certify import print_certified
from .completion import ModelName, PassName
from .language import language, say
from .loading import (
    MODEL_HELP,
    TARGET,
    Loading,
    certificate_option,
    load,
    model_options,
    oracle_for,
    oracle_option,
    pieces_option,
)
from .pages import html_option
from .printing import (
    add_row,
    change_rows,
    doing,
    echo,
    echo_text,
    print_changes,
    print_json,
    print_report,
    print_table,
    print_verdict,
    report_errors,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..backends.onnx_model.counting import FunctionCounts
    from ..backends.onnx_model.in_place import InPlace
    from ..ir import Graph
    from ..passes.base import Pass
    from ..verification import Report


@click.command(epilog=MODEL_HELP, short_help="Rewrite MODEL, compare, and write it to OUT.")
@click.argument("model", type=ModelName())
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="A directory, or an .onnx file."
)
@click.option(
    "--to",
    "target",
    type=TARGET,
    help="The target; by default inferred from OUT.",
)
@click.option(
    "--pass",
    "extra",
    type=PassName(),
    multiple=True,
    metavar="NAME[:OPTIONS]",
    help="Pass to run after the default passes; FILE.py:CLASS names your own and RUNS THE FILE; repeat.",
)
@click.option(
    "--only-pass",
    "only",
    type=PassName(),
    multiple=True,
    metavar="NAME[:OPTIONS]",
    help="Pass to run instead of the default passes; repeat.",
)
@click.option(
    "--checkpoint-format",
    type=click.Choice(["ckpt", "safetensors", "pth"]),
    help="Format of the weights: ckpt or safetensors of a MindSpore output, by default ckpt, and safetensors "
    "above 2 GB; safetensors or pth of a PyTorch output, by default safetensors.",
)
@click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Write weights in files of at most this size, e.g. 2GB, with an index; not for MXNet.",
)
@click.option(
    "--explicit-initializers",
    is_flag=True,
    help="State every initial distribution in a MindSpore or PyTorch output, not only those that differ from "
    "the defaults.",
)
@click.option(
    "--attention-layers",
    is_flag=True,
    help="Write attention as nn.MultiheadAttention in a MindSpore output where the two are equal; by "
    "default as its parts, which are faster on CPU.",
)
@click.option(
    "--emit-tests",
    is_flag=True,
    help="Also write test_model.py beside a MindSpore or PyTorch output: it compares each class with "
    "recorded results of the source.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Convert the supported operators, and leave a Cell or module to write by hand for each other one; "
    "MindSpore and PyTorch only, and not compared with the source.",
)
@click.option(
    "--keep-prints",
    is_flag=True,
    help="Keep a Cell's prints, dumps and summaries in a MindSpore output, and its prints in a PyTorch "
    "output; by default they are left out, with a note.",
)
@click.option(
    "--recipe",
    metavar="FILE.py:FUNCTION",
    help="Also write train.py beside a MindSpore or PyTorch output, which trains as this recipe trains "
    "MODEL: RUNS THE FILE. The function takes the net and returns a dict with loss, optimizer, schedule and "
    "so on.",
)
@click.option("--no-fold", is_flag=True, help="Keep every BatchNormalization and Dropout in an ONNX output.")
@click.option(
    "--functions",
    is_flag=True,
    help="Write every class of modules that is called several times as a function of an ONNX output.",
)
@click.option(
    "--weights-in-place",
    "in_place",
    is_flag=True,
    help="Leave the weights of an ONNX output in the safetensors files of --params, where these lie in or "
    "below its folder; the report lists the weights that are copied.",
)
@click.option(
    "--dequantise",
    is_flag=True,
    help="Write quantised weights as floats, four times the size of int8, and say so in the first line; by "
    "default they stay quantised.",
)
@click.option(
    "--certify",
    "certified",
    is_flag=True,
    help="Also write certificate.json beside the output: that it equals MODEL exactly, for regraft-recheck.",
)
@click.option("--no-verify", is_flag=True, help="Do not compare the output with the source.")
@click.option(
    "--allow-removal", is_flag=True, help="Allow the removal of more than half of the trainable parameters."
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option(
    "--verify-each", is_flag=True, help="Validate the graph after every pass, also the target's own."
)
@click.option(
    "--print-after",
    type=PassName(),
    metavar="PASS",
    help="Print the graph after this pass, which may be one of the target's own.",
)
@pieces_option
@certificate_option
@oracle_option
@html_option
@model_options
@click.option("-v", "--verbose", is_flag=True, help="List every note and every compared row.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON report to standard output.")
@click.pass_context
def rewrite(
    ctx: click.Context,
    model: str,
    output: Path,
    target: str | None,
    extra: tuple[str, ...],
    only: tuple[str, ...],
    checkpoint_format: str | None,
    max_shard_size: str | None,
    explicit_initializers: bool,
    attention_layers: bool,
    emit_tests: bool,
    partial: bool,
    keep_prints: bool,
    recipe: str | None,
    no_fold: bool,
    functions: bool,
    in_place: bool,
    dequantise: bool,
    certified: bool,
    no_verify: bool,
    allow_removal: bool,
    force: bool,
    verify_each: bool,
    print_after: str | None,
    pieces: bool | None,
    certificate: bool | None,
    oracle: str | None,
    html: Path | None,
    loading: Loading,
    verbose: bool,
    as_json: bool,
) -> None:
    """Rewrite MODEL to OUT and compare the two module by module; the verdict comes first.

    Options of a pass follow its name: --pass tie-weights:tie=embed.weight+head.weight,twin=data+data2
    """
    from .. import api
    from ..api import extensions, targets
    from ..api.certificates import certificate_beside, certify
    from ..api.pages import write_page
    from ..api.written_names import in_written_names
    from ..backends import find_stale_files
    from ..formats.shard_index import parse_size
    from ..ir import Graph
    from ..passes import default_pipeline

    with report_errors(ctx):
        to = targets.target_of(output, target)
        options: dict[str, object] = dict.fromkeys(targets.switches_of(to), False) if only else {}
        if no_fold:
            options["fold"] = False
        if functions:
            options["functions"] = True
        kept = targets.weights_in_place(output) if in_place else None
        if kept is not None:
            options["weights_in_place"] = kept
        if checkpoint_format:
            options["checkpoint_format"] = checkpoint_format
        if max_shard_size:
            options["max_shard_size"] = parse_size(max_shard_size)
        if explicit_initializers:
            options["explicit_initializers"] = True
        if attention_layers:
            options["attention_layers"] = True
        targets.require_output(
            output,
            target,
            verified=not no_verify,
            force=force,
            emit_tests=emit_tests,
            recipe=recipe,
            pieces=pieces,
            **options,
        )
        passes = [extensions.parse_pass(p) for p in only] if only else default_pipeline(to)
        passes = [*passes, *(extensions.parse_pass(p) for p in extra)]
        if dequantise:
            passes.insert(0, extensions.parse_pass("dequantise"))
        print_it = None if print_after is None else _printing(print_after, passes, output, target)
        graph = load(model, loading, partial=partial, keep_prints=keep_prints)
        with doing("rewriting"):
            rewritten = api.rewrite(graph, passes, verify_each=verify_each, print_after=print_it)
        if print_it is not None and print_after not in [p.name for p in passes]:
            targets.lower(rewritten.graph, output, target, print_after=print_it, partial=partial, **options)
        stubs = targets.stubs_left(rewritten.graph, output, target) if partial else []
        if stubs:
            options["partial"] = True
        no_verify = no_verify or bool(stubs) or targets.has_stubs(graph)

        def page(report: Report | None, written: Path | Graph) -> None:
            if html is not None:
                renames = rewritten.renames if isinstance(written, Graph) else ()  # those beside it
                write_page(html, graph, written, report, renames=renames, lang=language())

        with (
            doing("writing" if no_verify else "writing and verifying"),
            _page_of_failure(page, rewritten.graph),
        ):
            files, report = targets.rewrite_file(
                graph,
                rewritten,
                output,
                target,
                verified=not no_verify,
                force=force,
                emit_tests=emit_tests,
                oracle=oracle_for(ctx, graph, oracle),
                verify_each=verify_each,
                allow_removal=allow_removal,
                recipe=recipe,
                pieces=pieces,
                certificate=certificate,
                **options,
            )
        written_beside = None
        if certified and not stubs:
            with doing("certifying"):
                written = output if output.is_dir() else files[0]
                written_beside = certify(graph, written, output=certificate_beside(output))
            files += written_beside.files
        is_onnx = to == "onnx"
        page(report, output if is_onnx else rewritten.graph)
        gone = targets.removal(graph, rewritten)
        changes = in_written_names(rewritten.changes, files)
        if as_json:
            print_json(
                {
                    "removed": {"tensors": gone.tensors, "elements": gone.elements, "of": gone.of},
                    "files": [str(f) for f in files],
                    "changes": change_rows(changes),
                    "verified": None if report is None else report.to_json(),
                    "certified": None if written_beside is None else written_beside.to_json(),
                    **({} if kept is None else {"in_place": {"kept": kept.kept, "copied": kept.copied}}),
                }
            )
            return
        if report is not None:
            print_report(report, verbose=verbose, removed=str(gone) if gone.tensors else "")
        else:
            stubbed = f"{len(stubs)} stub{'s' * (len(stubs) != 1)} to be written by hand"
            as_floats = "" if stubs else targets.dequantised(rewritten)
            if as_floats:
                print_verdict(f"NOT COMPARED (--no-verify), {as_floats}")
            else:
                print_verdict(f"NOT COMPARED ({stubbed if stubs else '--no-verify'})")
            if gone.tensors:
                echo(gone)
        if written_beside is not None:
            print_certified(written_beside, verbose=verbose)
        print_changes(changes, rewritten=True, verbose=verbose)
        if is_onnx:
            _print_operators(targets.count_operators(graph, output))
            if functions:
                _print_functions(targets.count_functions(output))
            if kept is not None:
                _print_in_place(kept)
        noted = graph.origin.notes
        for note in [*noted, *_further(stubs, noted)]:
            echo(f"note: {note}")
        lost = targets.prints_left_out(rewritten.graph, to)
        if lost:
            echo(f"note: left out, because this target has none: {lost}")
        for path in find_stale_files(files, to):
            echo(f"note: `{path}` is left from an earlier output and does not belong to this one")
        for file in [*files, *([] if html is None else [html])]:
            echo(f"wrote {file}")


def _print_operators(counts: Sequence[tuple[str, int, int]]) -> None:
    """Print the number of operators of each kind, before and after."""
    table = table_of("operator", ">source", ">ONNX")
    for name, before, after in counts:
        add_row(table, name, str(before or ""), str(after or ""))
    before, after = sum(row[1] for row in counts), sum(row[2] for row in counts)
    add_row(table, say("all"), str(before), str(after))
    print_table(table)


def _print_in_place(found: InPlace) -> None:
    """Print the number of weights that stay in their files, and why others are copied."""
    count, files = len(found.kept), sorted(set(found.kept.values()))
    of = count + len(found.copied)
    echo(f"weights in place: {count} of {of} tensors, in {', '.join(files) or 'no file'}")
    reasons: dict[str, list[str]] = {}
    for name, why in found.copied.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        echo(f"copied {', '.join(names[:_LISTED])}{', …' if len(names) > _LISTED else ''}: {why}")


_LISTED = 6
"""Names of copied weights that a line lists."""


def _print_functions(counts: FunctionCounts | None) -> None:
    """Print what functions save."""
    if counts is None:
        echo("note: no function, as no class of modules with several operators is called several times")
        return
    echo(
        f"functions: {counts.functions}, called {counts.calls:,} times; {counts.operators:,} operators are "
        f"{counts.graph:,} nodes of the graph and {counts.nodes - counts.graph:,} of the functions; "
        f"{counts.bytes / 1e6:.1f} MB"
    )


@contextmanager
def _page_of_failure(page: Callable[[Report, Graph], None], graph: Graph) -> Iterator[None]:
    """Open a with block in which a failed comparison gets its page too."""
    from ..ir import MismatchError

    try:
        yield
    except MismatchError as error:
        from ..verification.verify_written import VerificationError

        if isinstance(error, VerificationError):
            page(error.report, graph)
        raise


def _further(stubs: list[str], notes: list[str]) -> list[str]:
    """Return a note of every stub that the frontend has not noted."""
    found = [f"stub to be written by hand: {stub}" for stub in stubs]
    return [stub for stub in found if not any(stub.partition(" - ")[0] in note for note in notes)]


def _printing(
    name: str, passes: Sequence[Pass], output: Path, target: str | None
) -> Callable[[Pass, Graph], None]:
    """Return the callback that prints the graph after a pass, which may be the target's own.

    Raises:
        PassError: when no pass of that name runs.
    """
    from ..api import targets
    from ..ir import PassError, render

    names = [p.name for p in passes]
    if name not in names:
        names += [p.name for p in targets.target_passes(targets.target_of(output, target))]
    if name not in names:
        raise PassError("E502", f"expected a pass of the pipeline ({', '.join(names)}), got `{name}`")

    def print_after(pass_: Pass, graph: Graph) -> None:
        if pass_.name == name:
            echo_text(render(graph).rstrip("\n"))

    return print_after
