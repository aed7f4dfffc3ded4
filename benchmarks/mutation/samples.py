"""The nets in which faults are planted, with what regraft writes of each, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...api import load, rewrite
from ...api import verify as verify_models
from ...api.targets import save
from ...ir import BackendError, Graph, UnsupportedError, walk_operators
from ...tests.corpora.mxnet import cases as mxnet
from ...tests.end_to_end import catalogue
from ...verification import Report, verify
from .graph_faults import graph_mutants
from .mindspore_faults import mindspore_mutants
from .mutants import Mutant, Target
from .mxnet_faults import mxnet_mutants
from .onnx_faults import onnx_mutants

BATCH = 2
"""The batch of the example inputs."""

_MXNET = (
    "net/lenet", "net/mlp", "net/siamese", "net/resnext", "net/shufflenet_unit", "net/text_cnn",
    "net/transformer_batch_dot", "net/tcn_1d", "net/alexnet_lrn", "net/unet", "net/super_resolution",
    "net/actor_critic", "legacy/lstm_fused_rnn_v905", "legacy/batchnorm_only_v080",
)  # fmt: skip
"""Small symbols of every kind; the zoo's nets only take longer."""


class Sample:
    """A net with its targets.

    Args:
        label: as in `labels`.
        folder: for what is written.
        further: above 0, other weights; a symbol of MXNet has its own only.
    """

    def __init__(self, label: str, folder: Path, further: int = 0) -> None:
        self.label = label
        self._folder = folder
        self._further = further
        self._case = next((c for c in catalogue.CASES if c.label == label), None)

    @cached_property
    def _model(self) -> Any:
        if self._case is not None:
            return self._case.build(self._further)
        return _mxnet_case(self.label).write(self._folder)

    def inputs(self, batch: int) -> list[np.ndarray]:
        """The net's example inputs at a batch size; a symbol of MXNet has its own batch only."""
        if self._case is not None:
            return list(self._case.inputs(batch))
        given = _mxnet_case(self.label).inputs()  # labels too, which an inference graph does not have
        return [given[node.name] for node in self.graph.input_nodes()]

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes at which the net can be run."""
        return (1, BATCH, 5) if self._case is not None and not self._case.fixed_batch else (BATCH,)

    @cached_property
    def graph(self) -> Graph:
        """The source, as loaded."""
        if self._case is not None:
            return load(self._model, self.inputs(BATCH))
        return load(self._model, _mxnet_case(self.label).inputs())

    @cached_property
    def rewritten(self) -> Graph:
        """The source after the default pipeline."""
        return rewrite(self.graph).graph

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets in which faults are planted; an MXNet symbol cannot say every net."""
        norms = any(node.op_type == "BatchNormalization" for _, node in walk_operators(self.graph))
        unfolded = ("onnx --no-fold",) if norms else ()
        try:
            self.written("mxnet")
        except (BackendError, UnsupportedError):
            return ("onnx", *unfolded, "mindspore", "graph")
        return ("onnx", *unfolded, "mindspore", "graph", "mxnet")

    @property
    def trains(self) -> bool:
        """Whether a training step of the source can be compared."""
        return self._case is not None

    def written(self, target: str) -> Target:
        """A right target of that name."""
        if target == "graph":
            return self.rewritten
        folder = self._folder / target.replace(" ", "")
        path = folder / "net.onnx" if target.startswith("onnx") else folder
        if not folder.exists():
            options: dict[str, object] = {"fold": False} if target.endswith("--no-fold") else {}
            folder.mkdir(parents=True)
            save(self.rewritten, path, to=target.split()[0], force=True, **options)
        return self._loaded(next(path.glob("*symbol.json"))) if target == "mxnet" else path

    def _loaded(self, symbol: Path) -> Graph:
        return load(symbol, dict(self.rewritten.origin.inputs))

    def verified(
        self,
        target: str,
        made: Target,
        inputs: Mapping[str, np.ndarray] | None = None,
        *,
        train: bool = False,
    ) -> Report:
        """The report on a target of that name, as it is verified after writing and by a user."""
        if target == "mxnet":
            return verify(self.graph, made, inputs, renames=self._folder / target / "renames.json")
        return verify_models(self.graph, made, inputs, train=train)

    def mutants(self, target: str) -> Iterator[Mutant]:
        """Every fault that can be planted in that target."""
        written = self.written(target)
        if target == "graph":
            return graph_mutants(self.rewritten)
        if target == "mxnet":
            folder = self._folder / target
            symbol, params = next(folder.glob("*symbol.json")), next(folder.glob("*.params"))
            return mxnet_mutants(symbol, params, self._loaded)
        assert isinstance(written, Path)
        return onnx_mutants(written) if target.startswith("onnx") else mindspore_mutants(written)


def labels() -> list[str]:
    """Every net, by the name of its row."""
    return [c.label for c in catalogue.CASES] + [f"mxnet.{name.replace('/', '.')}" for name in _MXNET]


def _mxnet_case(label: str) -> mxnet.Case:
    _, group, name = label.split(".", 2)
    return mxnet.cases("legacy" if group == "legacy" else "models")[f"{group}/{name}"]


VARIATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda a: a,
    "x 10": lambda a: a * 10,
    "+ 3": lambda a: a + 3,
    "- 3": lambda a: a - 3,
    "x 0.01": lambda a: a * 0.01,
    "zero": lambda a: a * 0,
    "in 0..1": lambda a: (a - a.min()) / max(float(np.ptp(a)), 1e-6),
    "x 100": lambda a: a * 100,
}
"""What is made of floating-point inputs to look whether a mutant differs from the right target at all."""


def varied(arrays: list[np.ndarray], variation: str) -> list[np.ndarray]:
    """The inputs with every floating-point one changed."""
    change = VARIATIONS[variation]
    return [change(a).astype(a.dtype) if a.dtype.kind == "f" else a for a in arrays]
