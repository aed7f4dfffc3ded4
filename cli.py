"""The command line: the only package that prints, reads the environment or exits; a file a command.

Exit codes: 0 done or clean; 1 findings, or a target that computes something else; 2 an error of the user's
model, input or arguments; 3 a fault of regraft's own; 129, 130 and 143 ended by SIGHUP, Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from .commands.certify import certify
from .commands.check import check
from .commands.checkpoint import convert_checkpoint, repair_checkpoint
from .commands.common import add_common_options, language_option
from .commands.compare_data import compare_data
from .commands.completion import VARIABLE, completion
from .commands.configuration import defaults_of
from .commands.diff import diff
from .commands.fix import fix
from .commands.helping import Commands
from .commands.language import language_of, say, say_lines
from .commands.mcp import mcp
from .commands.own_output import divert
from .commands.passes import explain, passes
from .commands.report import report
from .commands.rewrite import rewrite
from .commands.show import show
from .commands.sweep import sweep
from .commands.verify import verify
from .process.signals import end_on_signals, ignore_signals


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="regraft COMMAND --help has examples; regraft explain CODE says what a finding or error means.",
)
@click.version_option(package_name="regraft")
@click.option("--debug", is_flag=True, help="Show a traceback with every error.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file with defaults for options; by default [tool.regraft] in the nearest pyproject.toml.",
)
@click.pass_context
def main(ctx: click.Context, debug: bool, config: Path | None) -> None:
    """Rewrite neural-network models between frameworks, and prove the rewrite is the same model."""
    ctx.obj = {"debug": debug}
    assert isinstance(ctx.command, click.Group)
    ctx.default_map = defaults_of(ctx.command, config)
    # MindSpore's convolutions are 10 to 100 times slower without this on AVX-512 machines
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    os.environ.setdefault("GLOG_v", "4")  # its errors reach the user as ours, with file and line
    # threads of OpenMP that wait busily cost most of a small model's run, the more the busier the machine is
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("MS_DEV_HOST_BLOCKING_RUN", "1")  # so do MindSpore's queues of operators


main.params.append(language_option())
for command in (
    check,
    fix,
    show,
    rewrite,
    verify,
    certify,
    report,
    convert_checkpoint,
    repair_checkpoint,
    diff,
    compare_data,
    sweep,
    passes,
    explain,
    mcp,
    completion,
):
    main.add_command(add_common_options(command))


def invoke(arguments: list[str] | None = None) -> int:
    """Run one command line, the process's own by default, and return its exit code; errors are printed.

    Raises:
        Exception: whatever is a fault of regraft's own.
    """
    lang = language_of(sys.argv[1:] if arguments is None else arguments)
    try:
        result = main.main(arguments, "regraft", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None:
            with error.ctx.scope(cleanup=False):
                usage = error.ctx.get_usage()
            ask = say(f"Try `{error.ctx.command_path} --help` for help.", lang)
            click.echo(f"{usage}\n{ask}\n", err=True)
        from .ir.outside.display import shorten_words

        told = say_lines(shorten_words(error.format_message()), lang)
        click.echo(f"{say('Error', lang)}: {told}", err=True)
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo(say("aborted", lang), err=True)
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:  # of printing: those of files are told where the command runs
        from .ir import system_error

        click.echo(say_lines(f"error {system_error(error)}", lang), err=True)
        return 2
    return result if isinstance(result, int) else 0


def _hold_exits() -> Callable[[int], NoReturn]:
    """Let no model end this process by `os._exit`, with a code that would be taken for ours.

    A process that a model forks may still end itself. What stays possible is to be killed, which is no 0.

    Returns:
        The function that ends the process.
    """
    leave, ours = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != ours:
            leave(status)
        raise SystemExit(status)

    os._exit = refuse
    return leave


def run() -> NoReturn:
    """Console entry: turns errors into messages and exit codes, and ends the process."""
    end_on_signals()
    if VARIABLE in os.environ:  # a shell asks, and reads what is printed
        main.main(prog_name="regraft")
    code = 0
    leave = _hold_exits()
    try:
        code = invoke()
    except SystemExit as stop:  # a model's, where no reader of ours was running it: our own are no exceptions
        if type(sys.stdout).__module__.startswith("click"):  # its own exit: nobody reads what we write
            code = 0
        else:
            _tell(f"error E102 the model's code ends the process: sys.exit({stop.code!r})")
            code = 2
    except BrokenPipeError:
        code = 0
    except Exception as error:  # the last line of defence: a fault of ours, said plainly
        from .ir.outside.display import shorten_words

        code = 3
        _tell(f"internal error: {type(error).__name__}: {shorten_words(str(error))}")
        _tell("hint: this is a fault in regraft; run again with --debug for the traceback")
        if "--debug" in sys.argv:
            raise
    code = _flushed(code)
    divert()  # what a model prints as the process ends is no part of the result either
    ignore_signals()
    with suppress(BaseException):  # whatever a model has registered
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    # to tear all modules down takes the interpreter a tenth of a small command's time, with a framework a
    # second, and MindSpore's Cells print a complaint each
    leave(code)


def _tell(line: str) -> None:
    """Print a line outside of any command."""
    click.echo(say_lines(line, language_of(sys.argv[1:])), err=True)


def _flushed(code: int) -> int:
    """Return the exit code after a flush of the output, which a full disk or a closed pipe may refuse."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), stream.fileno()
            )  # the interpreter tries again as it ends
            if not isinstance(error, BrokenPipeError):
                if code != 2:  # else the error has been told
                    _tell(f"error E002 cannot print: {error.strerror}")
                code = 2
    return code
