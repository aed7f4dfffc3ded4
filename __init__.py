"""regraft: rewrites neural-network models between frameworks and proves that the rewrite is the same model.

Example:
    >>> import regraft
    >>> graph = regraft.load("examples/resnet.py:resnet18", ["2x3x64x64"])  # doctest: +SKIP
    >>> result = regraft.rewrite(graph)                                     # doctest: +SKIP
    >>> regraft.save(result.graph, "out", to="mindspore")                   # doctest: +SKIP
    >>> regraft.verify(graph, "out").passed                                 # doctest: +SKIP
    True
"""

from __future__ import annotations

import sys

if (
    sys.argv[:1] == ["-m"]
    and ("-m", "regraft") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    and not sys.flags.safe_path
):
    # `python -m` puts the working directory first, where a `json.py` or `torch.py` may lie
    del sys.path[0]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regraft.api import (  # pyright: ignore[reportMissingImports] - the checkout has another name
        Change,
        Diff,
        Findings,
        Fixed,
        Graph,
        InputSpec,
        ModelError,
        Pass,
        RegraftError,
        Report,
        Reporter,
        Rewritten,
        UnsupportedError,
        UsageError,
        VerificationError,
        add_emitter,
        add_lowering,
        add_operator,
        available_passes,
        check,
        check_file,
        convert_checkpoint,
        default_pipeline,
        describe,
        diff,
        fix,
        load,
        load_extension,
        load_tree,
        parse_pass,
        repair_checkpoint,
        reporting,
        rewrite,
        rewrite_file,
        save,
        unique_names,
        verify,
    )

__version__ = "0.1.0"

__all__ = [
    "Change",
    "Diff",
    "Findings",
    "Fixed",
    "Graph",
    "InputSpec",
    "ModelError",
    "Pass",
    "RegraftError",
    "Report",
    "Reporter",
    "Rewritten",
    "UnsupportedError",
    "UsageError",
    "VerificationError",
    "add_emitter",
    "add_lowering",
    "add_operator",
    "available_passes",
    "check",
    "check_file",
    "convert_checkpoint",
    "default_pipeline",
    "describe",
    "diff",
    "fix",
    "load",
    "load_extension",
    "load_tree",
    "parse_pass",
    "repair_checkpoint",
    "reporting",
    "rewrite",
    "rewrite_file",
    "save",
    "unique_names",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import the API on first use, so that ``regraft --help`` stays fast."""
    if name in __all__:
        from regraft import api  # pyright: ignore[reportMissingImports]

        return getattr(api, name)
    raise AttributeError(f"module `regraft` has no attribute `{name}`")


def __dir__() -> list[str]:
    """The API, also before any of it was imported: what a notebook completes."""
    return sorted({*__all__, "__version__", "__doc__", "__name__", "__file__", "__path__"})
