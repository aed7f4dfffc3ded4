"""`regraft completion`: what a shell needs to complete commands, options, passes, codes and files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from .printing import echo_text, report_errors

VARIABLE = "_REGRAFT_COMPLETE"
"""The environment variable by which a shell asks for completions; click's own convention."""
_LINES = {
    "bash": 'eval "$(regraft completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(regraft completion zsh)"  # in ~/.zshrc, below compinit',
    "fish": "regraft completion fish | source  # in ~/.config/fish/config.fish",
}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(list(_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, passes, codes and files in SHELL.

    \b
    The line that installs it:
      bash, in ~/.bashrc:    eval "$(regraft completion bash)"
      zsh, in ~/.zshrc:      eval "$(regraft completion zsh)"
      fish, in config.fish:  regraft completion fish | source
    """  # noqa: D301 - a control character that keeps the lines apart
    with report_errors(ctx):
        cls = get_completion_class(shell)
        assert cls is not None
        group = ctx.find_root().command
        comp = cls(group, {}, "regraft", VARIABLE)
        echo_text(f"# {_LINES[shell]}")
        echo_text(comp.source_template % comp.source_vars())


class _Completed(click.ParamType):
    """A text that is taken as it is, and of which a shell completes what there is."""

    name = "text"

    def items(self, incomplete: str) -> list[CompletionItem]:
        """Return the completions for that place."""
        raise NotImplementedError

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """See click; nothing is loaded until a shell asks."""
        return self.items(incomplete)


class PassName(_Completed):
    """A pass with options, or a file of your own."""

    def items(self, incomplete: str) -> list[CompletionItem]:
        """Return names of passes; files where a path is begun."""
        from .. import api

        if "/" in incomplete or ".py" in incomplete:
            return ModelName().items(incomplete)
        return [
            CompletionItem(cls.name, help=(cls.__doc__ or "").strip().partition("\n")[0])
            for cls in api.available_passes()
            if cls.name.startswith(incomplete)
        ]


class CodeOrPass(_Completed):
    """A code or the name of a pass."""

    def items(self, incomplete: str) -> list[CompletionItem]:
        """Return codes with what they mean, and passes."""
        from ..api.explanations.lookup import known_codes

        found = [
            CompletionItem(code, help=meaning)
            for codes in known_codes().values()
            for code, meaning in codes.items()
            if code.startswith(incomplete.upper())
        ]
        return [*found, *PassName().items(incomplete)] if incomplete else found


class ModelName(_Completed):
    """A model: a file, and behind the colon what it defines, which is read and not run."""

    def items(self, incomplete: str) -> list[CompletionItem]:
        """Return files, or the names at the top of a Python file."""
        import ast
        from pathlib import Path

        where, colon, name = incomplete.rpartition(":")
        if not colon or not where.endswith(".py"):
            return [CompletionItem(incomplete, type="file")]
        try:
            tree = ast.parse(Path(where).read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            return []
        names = [n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
        names += [
            t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
        ]
        return [CompletionItem(f"{where}:{each}") for each in names if each.startswith(name)]
