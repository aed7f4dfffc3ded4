"""Stores rows and outputs by the digest of their case, in a folder or at any URL that fsspec opens."""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...ir import UsageError
from .case import LASTING, Row
from .opened import Opened, is_unchanged, opened_from_json


class Store:
    """Rows and outputs by key; two runs of one key never write into one file.

    Args:
        url: a folder, or a URL such as ``s3://bucket/sweeps``, whose fsspec package is installed.

    Raises:
        UsageError: for a URL that cannot be opened.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError as error:
            raise UsageError(
                "E105",
                "a sweep expected `fsspec` to be installed, got no such module",
                hint='pip install "regraft[sweep]"',
            ) from error
        try:
            self._files, self._root = url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise UsageError(
                "E001", f"expected a folder or a URL that fsspec opens, got `{url}`: {error}"
            ) from error
        self._url = url.rstrip("/")
        self._local = "file" in _protocols(self._files)
        self._has_folders = (
            not self._files.async_impl
        )  # object stores have none, and a bucket is not made unasked

    def require_writable(self) -> None:
        """Write a file of this version, so that a sweep does not run for nothing.

        Raises:
            UsageError: when that fails, or where it would be lost with this process.
        """
        if "memory" in _protocols(self._files):
            raise UsageError(
                "E001",
                f"expected a store that outlives this process, got `{self._url}`",
                hint="--store FOLDER, or s3://bucket/path and the like",
            )
        try:
            self._make_folder(self._root)
            self._files.pipe_file(f"{self._root}/regraft.json", b'{"made by": "regraft"}\n')
        except Exception as error:  # each file system raises its own
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UsageError("E002", f"cannot write to the store: {why}", place=self._url) from error

    def get(self, key: str, folder: Path = Path()) -> Row | None:
        """Return the row of an earlier run of the same, as cached; None where there is none that lasts.

        Args:
            key: digest of what the case names.
            folder: the suite's; the files that the case opened are as they were.
        """
        try:
            document = json.loads(self._files.cat_file(f"{self._place(key)}/row.json"))
            row = Row.from_json(document)
            opened = opened_from_json(document.get("opened", {}))
        except Exception:  # absent, cut off, not ours, or out of reach: each file system raises its own
            return None
        lasts = row.verdict in LASTING and row.key == key and is_unchanged(opened, folder)
        return replace(row, cached=True) if lasts else None

    def put(self, row: Row, output: Path | None = None, opened: Opened | None = None) -> Row:
        """Keep a row, and a folder beside it; the row comes last, and whole.

        Args:
            row: what came of a case.
            output: the folder to keep; None or an empty one for nothing.
            opened: the files that the case opened.

        Returns:
            The row, with the URL of what was kept, or with why nothing could be kept.
        """
        place, attempt = self._place(row.key), secrets.token_hex(6)
        try:
            return self._put(row, output, opened or {}, place, attempt)
        except Exception as error:  # each file system raises its own, and the verdict stays true
            for half in (f"output-{attempt}", f"row-{attempt}.json"):  # a full disk needs the room
                with contextlib.suppress(Exception):
                    self._files.rm(f"{place}/{half}", recursive=True)
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return replace(row, unkept=why)

    def _put(self, row: Row, output: Path | None, opened: Opened, place: str, attempt: str) -> Row:
        self._make_folder(place)
        if output is not None and any(output.iterdir()):
            self._files.put(f"{output}/", f"{place}/output-{attempt}/", recursive=True)
            row = replace(row, output=f"{self._url}/{row.key[:2]}/{row.key}/output-{attempt}")
        document = {**row.to_json(), "opened": opened}
        text = json.dumps(document, indent=1).encode()  # in ASCII: a path need not be UTF-8
        if self._local:  # elsewhere an object appears whole
            self._files.pipe_file(f"{place}/row-{attempt}.json", text)
            Path(f"{place}/row-{attempt}.json").replace(f"{place}/row.json")
        else:
            self._files.pipe_file(f"{place}/row.json", text)
        return row

    def _make_folder(self, place: str) -> None:
        if self._has_folders:
            self._files.makedirs(place, exist_ok=True)

    def _place(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}"


def _protocols(files: Any) -> tuple[str, ...]:
    found = files.protocol
    return (found,) if isinstance(found, str) else tuple(found)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of an earlier sweep's table.

    Raises:
        UsageError: for a file that has none.
    """
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        try:
            lines = stack.enter_context(path.open(encoding="utf-8"))
            for number, line in enumerate(lines, 1):
                try:
                    rows.append(Row.from_json(json.loads(line)))
                except (ValueError, RecursionError) as error:
                    raise UsageError(
                        "E001", f"expected a row of a sweep, got {error}", place=f"{path}:{number}"
                    ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                "E001", f"expected the rows.jsonl of a sweep, got {error}", place=str(path)
            ) from error
    return rows
