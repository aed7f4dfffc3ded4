"""The options of a repository: ``[tool.regraft]`` in pyproject.toml, or a file that --config names.

A pyproject.toml is taken from the working directory or a folder above it, unasked; so it may hold no option
that runs code or replaces files. A file that is named may hold all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .common import long_names, option_of, value_of


class ConfigurationError(click.ClickException):
    """A configuration that is not right."""

    exit_code = 2


_ASKED_FOR = {
    **dict.fromkeys(("trust", "extension", "recipe", "oracle", "like", "pass", "only-pass"), "runs code"),
    **dict.fromkeys(
        ("force", "allow-removal", "no-verify", "output", "write-map"), "decides what is written"
    ),
}
"""Options that only a file which was named may hold, and why."""


def defaults_of(group: click.Group, named: Path | None) -> dict[str, Any]:
    """Return click's `default_map` of the configuration that applies; empty where there is none.

    Args:
        group: the command line.
        named: what --config names.

    Raises:
        ConfigurationError: for a file, key or value that is not right.
    """
    path = named or _found()
    if path is None:
        return {}
    table = _read(path, named is not None)
    return _checked(group, table, path, trusted=named is not None)


def _found() -> Path | None:
    """Return the nearest pyproject.toml, if it has a table of ours."""
    try:
        here = Path.cwd()
    except OSError:  # the working directory is gone
        return None
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        try:
            if path.is_file():
                return path if b"tool.regraft" in path.read_bytes() else None
        except OSError:
            return None
    return None


def _read(path: Path, named: bool) -> Mapping[str, Any]:
    import tomllib

    if named and not path.exists():
        from ..ir import missing_file

        raise ConfigurationError(missing_file(path).for_command_line())
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"E101 expected a configuration in TOML, got {said} - at {path}") from error
    if named and path.name != "pyproject.toml":
        return document
    tool = document.get("tool")
    table = tool.get("regraft") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        if named:
            raise ConfigurationError(f"E001 expected a table [tool.regraft], got none - at {path}")
        return {}
    return table


def _checked(group: click.Group, table: Mapping[str, Any], path: Path, *, trusted: bool) -> dict[str, Any]:
    """Return every key as click has it: those at the top for all commands that have the option."""
    defaults: dict[str, dict[str, Any]] = {}
    everywhere = {key: value for key, value in table.items() if not isinstance(value, dict)}
    for key, value in everywhere.items():
        known = [command for command in group.commands.values() if option_of(command, key)]
        if not known:
            names = {name for command in group.commands.values() for name in long_names(command)}
            raise _unknown(key, sorted({*names, *group.commands}), path)
        for command in known:
            _set(defaults, command, key, value, path, trusted)
    for name, rows in table.items():
        if not isinstance(rows, dict):
            continue
        if name not in group.commands:
            raise _unknown(name, sorted(group.commands), path)
        for key, value in rows.items():
            if option_of(group.commands[name], key) is None:
                raise _unknown(
                    f"{name}.{key}", [f"{name}.{n}" for n in long_names(group.commands[name])], path
                )
            _set(defaults, group.commands[name], key, value, path, trusted)
    return defaults


def _set(
    defaults: dict[str, dict[str, Any]],
    command: click.Command,
    key: str,
    value: object,
    path: Path,
    trusted: bool,
) -> None:
    option = option_of(command, key)
    assert option is not None
    assert option.name is not None
    assert command.name is not None
    if not trusted and key in _ASKED_FOR:
        raise ConfigurationError(
            f"E001 `{key}` {_ASKED_FOR[key]}: expected it on the command line or in a file that --config "
            f"names - at {path}"
        )
    try:
        defaults.setdefault(command.name, {})[option.name] = value_of(option, key, value)
    except TypeError as error:
        raise ConfigurationError(f"E001 expected {error} as `{key}`, got {value!r} - at {path}") from None


def _unknown(key: str, known: list[str], path: Path) -> ConfigurationError:
    from difflib import get_close_matches

    near = get_close_matches(key, known, 3, 0.6)
    meant = f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
    return ConfigurationError(f"E001 no option or command is called `{key}`{meant} - at {path}")
