"""Records training-only settings of PyTorch modules while they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...ir import CUMULATIVE
from .settings import CHANNELS, DROPOUT, MOMENTUM, Setting

RATIOS = {
    "dropout": (DROPOUT, 1, "p"),
    "dropout1d": (CHANNELS, 1, "p"),
    "dropout2d": (CHANNELS, 1, "p"),
    "dropout3d": (CHANNELS, 1, "p"),
    "feature_dropout": (CHANNELS, 1, "p"),
    "scaled_dot_product_attention": (DROPOUT, 4, "dropout_p"),
    "multi_head_attention_forward": (DROPOUT, 10, "dropout_p"),
}
"""Function with a ratio -> what it drops, and the ratio's position and name."""


def argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    """Return an argument of a call by its position or name; None without it."""
    return args[place] if len(args) > place else kwargs.get(name)


class SettingsRecorder:
    """Records training-only settings while a module runs, in either mode.

    Args:
        model: the module.
        paths: id of a module -> the source's path of it, or its paths in turn.

    Attributes:
        found: the settings, in the order of the run.
    """

    def __init__(self, model: Any, paths: Mapping[int, str | tuple[str, ...]]) -> None:
        self.found: list[Setting] = []
        self._model, self._paths = model, paths
        self._turns: dict[int, int] = {}
        self._stack = [""]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls that are made in a with block."""
        import torch
        from torch.overrides import TorchFunctionMode

        note = self._note

        class Noting(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                note(getattr(func, "__name__", "").rstrip("_"), args, kwargs or {})
                return func(*args, **(kwargs or {}))  # which notes nothing of what it calls in turn

        handles: list[Any] = []
        kind = torch.nn.Module  # whose methods an attribute of a module may hide
        for module in kind.modules(self._model):
            handles.append(kind.register_forward_pre_hook(module, self._enter))
            handles.append(kind.register_forward_hook(module, self._leave, always_call=True))
        try:
            with Noting():
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Any, _: Any) -> None:
        from torch import nn

        path = self._paths.get(id(module), self._stack[-1])
        if isinstance(path, tuple):
            turn = self._turns[id(module)] = self._turns.get(id(module), -1) + 1
            path = path[turn % len(path)]
        self._stack.append(path)
        if isinstance(module, nn.RNNBase):
            self._add(DROPOUT, module.dropout, module.num_layers - 1)
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            # a call of F.batch_norm does not tell in evaluation whether training updates its statistics
            kept = CUMULATIVE if module.momentum is None else 1 - module.momentum
            self.found += [Setting(MOMENTUM, kept, path)] * module.track_running_stats

    def _leave(self, *_: Any) -> None:
        self._stack.pop()

    def _note(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        kind, place, keyword = RATIOS.get(name, ("", 0, ""))
        if kind:
            ratio = argument(args, kwargs, place, keyword)
            self._add(kind, 0.5 if ratio is None and keyword == "p" else ratio)

    def _add(self, kind: str, ratio: float | None, count: int = 1) -> None:
        """Note a ratio; none that drops nothing or everything, which the numbers show."""
        if ratio is not None and 0 < ratio < 1:
            self.found += [Setting(kind, float(ratio), self._stack[-1])] * count
