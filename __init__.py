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

import lazy_loader

__version__ = "1.0.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # imports a name on its first use
