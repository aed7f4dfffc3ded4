"""MindSpore's own net of a ``.mindir`` file: it loads and runs what the file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....ir import ModelError
from ..capture import start_mindspore
from ..messages import first_line


def net_of(path: Path) -> Any:
    """Return the Cell that runs a file in MindSpore; **whatever the file holds may run**.

    Raises:
        ModelError: when MindSpore is missing, or refuses the file.
    """
    start_mindspore()
    import mindspore
    from mindspore import nn

    try:
        return nn.GraphCell(mindspore.load(str(path)))
    except Exception as error:  # MindSpore's loader may raise anything
        raise ModelError(
            "E104", f"MindSpore could not load the file: {first_line(error)}", place=str(path)
        ) from error
