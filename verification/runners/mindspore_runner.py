"""Runs MindSpore Cells, live or emitted, in PyNative mode, and leaves them as they were."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...frontends.mindspore_cell.live_state import may_write
from ...frontends.mindspore_cell.tree import data_of, walk
from ...ir import Graph, ModelError, Operator, walk_operators
from ..compare import EPSILON, kind_of
from ..conditioning import Change
from ..structure.mindspore_settings import SettingsRecorder
from ..structure.settings import Setting
from ..structure.sharing import Held
from ..training.step import Step
from .eager_runner import CallNames, EagerRunner
from .emitted_folder import WrittenNet
from .emitted_net import describe_net, drawn_net, emitted_net
from .mindspore_cells import (
    cells_of,
    evaluating,
    intercept_calls,
    own_names,
    parameters_of,
    refusal,
    source_expressions,
    start,
    use_own_names,
)
from .mindspore_values import (
    array_of,
    fill_slots,
    flatten_results,
    map_tensors,
    replace_tensors,
    set_value,
    tensors_of,
)
from .runs import CallRecord, KernelError, KernelErrors, Placeholder, Run

if TYPE_CHECKING:
    from ...frontends.training_script import RecipeFunction
    from ...ir.recipe import UpdateRule
    from ..recipes.mindspore_training import MindSporeTraining
    from ..recipes.trajectories import Batch, Trajectory


class MindSporeRunner(EagerRunner):
    """A Cell in PyNative mode; `of_graph` and `of_folder` make one.

    Args:
        net: the Cell.
        paths: id of a Cell -> the source's path of the module, or those of its modules whose calls are calls
            of this Cell, in turn.
        outputs: names of the outputs; empty when not known.
        imported: name in `sys.modules` to be removed on closing.
        cells: every Cell that may run, also those that no Cell has registered.
        parameters: name -> Parameter, each once; None for the names that they bear.
        arrange: makes the Cell's arguments of its tensors in order, where it takes nested ones.
        writes: whether a run may write into Parameters, which are put back behind it.

    Attributes:
        settings: what the training step, else the first recorded run, came by that acts in training only.
    """

    def __init__(
        self,
        net: Any,
        paths: Mapping[int, str | tuple[str, ...]],
        outputs: Sequence[str] = (),
        imported: str = "",
        cells: Sequence[Any] = (),
        parameters: dict[str, Any] | None = None,
        arrange: Callable[[Sequence[object]], tuple[list[object], dict[str, object]]] | None = None,
        writes: bool = False,
    ) -> None:
        import mindspore

        super().__init__(imported)
        self._net, self._paths, self._outputs = net, paths, list(outputs)
        self._arrange, self._writes = arrange, writes
        self._cells = list(cells) or [cell for _, cell in cells_of(net)]
        self._parameters = parameters or {p.name: p for p in parameters_of(self._cells)}
        self._precisions: dict[str, str] = {}
        self.settings: list[Setting] | None = None
        self.runtime = f"MindSpore {mindspore.__version__} (PyNative, evaluation mode)"

    @staticmethod
    def of_graph(graph: Graph) -> MindSporeRunner:
        """Return a runner of the live Cell that a graph came from."""
        start()
        net = graph.origin.model
        walked = Graph()
        tree = walk(walked, net)  # the frontend's own walk: the same Cells get the same keys
        paths = {cell: graph.modules.path(key) for cell, key in tree.modules.items() if key in graph.modules}
        held = walked.parameter_paths()
        # a Cell that is also called from within another one comes first under that path once it is captured
        first = {path: known[0] for known in graph.parameter_paths().values() for path in known}
        named = {first.get(n := held[tree.parameters[id(p)]][0], n): p for p in tree.tensors}
        outputs = [n for n, _ in graph.outputs]
        cells = list(tree.cells.values())
        arrange = graph.origin.arrange
        runner = MindSporeRunner(
            net, paths, outputs, cells=cells, parameters=named, arrange=arrange, writes=may_write(cells)
        )
        runner._precisions = _precisions(graph)
        return runner

    @staticmethod
    def of_folder(folder: Path) -> MindSporeRunner:
        """Return a runner of an emitted folder's net, built and filled from the checkpoint beside it.

        Raises:
            ModelError: when ``model.py`` or ``renames.json`` cannot be used.
        """
        net, paths, name = emitted_net(folder)
        return MindSporeRunner(net, paths, imported=name)

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        records: dict[str, CallRecord] = {}
        settings = SettingsRecorder(self._cells, self._paths)
        noting = nullcontext()
        if calls:
            self._start_recording()
            noting = settings.recording(training=False)
        recorder = self._recorder(records, given) if calls else None
        with evaluating(self._cells), intercept_calls(recorder), noting, self._unwritten():
            try:
                # reading a result waits for it, and so brings out errors of MindSpore's asynchronous kernels
                arrays = [array_of(found) for found in flatten_results(self._net(*self._bind(inputs)))]
            except Exception as error:  # the user's construct and MindSpore's kernels may raise anything
                raise refusal("run", error) from error
        if calls and self.settings is None:
            self.settings = settings.found
        names = (
            self._outputs if len(self._outputs) == len(arrays) else [f"output{i}" for i in range(len(arrays))]
        )
        return Run(list(zip(names, arrays, strict=True)), records, self._store)

    @contextmanager
    def _unwritten(self) -> Iterator[None]:
        """Put back what a run writes into the Parameters: each run starts from the same state."""
        kept = [(p, array_of(p)) for p in self._parameters.values()] if self._writes else []
        try:
            yield
        finally:
            for parameter, value in kept:
                if not np.array_equal(array_of(parameter), value, equal_nan=value.dtype.kind == "f"):
                    set_value(parameter, value)

    def _bind(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        """Return arguments in the order of `construct`, by name where it has parameters of their names."""
        from mindspore import Tensor

        tensors = {name: Tensor(np.array(value, copy=True)) for name, value in inputs.items()}
        if self._arrange is not None:
            return self._arrange(list(tensors.values()))[0]
        parameters = list(inspect.signature(self._net.construct).parameters.values())
        if not set(tensors) <= {p.name for p in parameters}:
            return list(tensors.values())
        # one that has no default and no tensor was given None
        must = {p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
        last = max((i for i, p in enumerate(parameters) if p.name in {*tensors, *must}), default=-1)
        return [
            tensors.get(p.name, None if p.default is inspect.Parameter.empty else p.default)
            for p in parameters[: last + 1]
        ]

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Set Parameters to other values, by name, until `close`."""
        for name, value in values.items():
            parameter = self._parameters[name]
            self._kept.append((parameter, array_of(parameter)))
            set_value(parameter, value)

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Change every floating-point Parameter in a with block; see `Runner`."""
        cells = [c for _, c in cells_of(self._arguments[call][0])] if call else self._cells
        chosen = [self._parameters[only]] if only else parameters_of(cells)
        kept = [(p, v) for p in chosen if kind_of(v := array_of(p)) in "fc"]
        try:
            for parameter, value in kept:
                set_value(parameter, change(value))
            with intercept_calls(
                _make_rounding_call(change, self._precision_of)
                if isinstance(change, Change) and not only
                else None
            ):
                yield
        finally:
            for parameter, value in kept:
                set_value(parameter, value)

    def _precision_of(self, cell: Any) -> str:
        """Return the coarsest type that a Cell computes in by itself; empty where it is not known."""
        path = self._paths.get(id(cell), "")
        return self._precisions.get(path if isinstance(path, str) else path[0], "")

    def _recorder(
        self, records: dict[str, CallRecord], given: Mapping[str, Sequence[np.ndarray]]
    ) -> Callable[..., Any]:
        """Return a recording replacement of `Cell.__call__`; `given`: results that replace calls' own."""
        from mindspore.nn import Cell

        original, keep = Cell.__call__, self._store.keep
        names = CallNames()

        def call(cell: Any, *arguments: Any, **keywords: Any) -> Any:
            path = self._paths.get(id(cell))
            if path is None:
                return original(cell, *arguments, **keywords)
            name = names.name(cell, path)
            inputs: list[np.ndarray] = []

            def hold(tensor: Any) -> Placeholder:
                inputs.append(keep(tensor.asnumpy()))
                return Placeholder(len(inputs) - 1)

            self._arguments[name] = (cell, map_tensors((arguments, keywords), hold))
            records[name] = CallRecord(
                type(cell).__name__, inputs, []
            )  # keeps the place: parents before children
            result = original(cell, *arguments, **keywords)
            if name in given:
                result = replace_tensors(result, given[name])
            records[name].outputs.extend(keep(t.asnumpy()) for t in tensors_of(result))
            self._recorded(name, records[name].outputs)
            return result

        return call

    def _recorded(self, call: str, outputs: Sequence[np.ndarray]) -> None:
        """Get what a recorded call gave, as soon as it is there."""

    def run_part(self, call: str, part: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call a Cell in the place of another one; see `Replacing`."""
        from mindspore import Tensor

        cell, structure = part, self._arguments[call][1]
        arguments, keywords = fill_slots(structure, [Tensor(np.array(value, copy=True)) for value in inputs])
        with evaluating([c for _, c in cells_of(cell)]):
            try:
                return [array_of(t) for t in tensors_of(cell(*arguments, **keywords))]
            except Exception as error:  # as in `run`
                raise refusal("run", error) from error

    def _expressions(self) -> dict[int, str]:
        return source_expressions(self._net)

    def _recorded_arguments(self, call: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
        arguments: tuple[Sequence[Any], Mapping[str, Any]] = self._arguments[call][1]
        return arguments

    def step(self, inputs: Mapping[str, np.ndarray], seed: int, ranks: Sequence[int] = ()) -> Step:
        """Make one training step; see `training_step.Trainer`.

        Raises:
            ModelError: when the Cell cannot be trained (E702).
        """
        from ..training.mindspore_step import mindspore_step

        settings = SettingsRecorder(self._cells, self._paths)

        def forward() -> list[Any]:
            with settings.recording(training=True):
                return tensors_of(self._net(*self._bind(inputs)))

        with evaluating(self._cells):
            try:
                step = mindspore_step(
                    self._net, self._cells, self._parameters, forward, seed, array_of, ranks
                )
            except ModelError:
                raise
            except Exception as error:  # as in `run`
                raise refusal("train", error) from error
        self.settings = settings.found
        return step

    @contextmanager
    def _lent(self) -> Iterator[None]:
        names = own_names(self._parameters)  # before they are borrowed
        with evaluating(self._cells), use_own_names(names):
            yield

    def follow(
        self,
        function: RecipeFunction,
        reference: str,
        batches: Sequence[Batch],
        record: frozenset[int],
        rules: Mapping[str, UpdateRule] | None = None,
        precision: str | None = None,
    ) -> Trajectory:
        """Train for some steps by a training script; see `Learner`."""
        assert rules is None  # only torch's modules compute in float64, and only they stand in for others
        with self._lent():
            return self._training(function, reference).follow(batches, record, precision)

    def _training(self, function: RecipeFunction, reference: str) -> MindSporeTraining:
        from ..recipes.mindspore_training import MindSporeTraining

        return MindSporeTraining(self._net, self._cells, self._parameters, self._bind, function, reference)

    def held(self) -> list[Held]:
        """Return the net's Parameters, each with every name that it is registered under."""
        names: dict[int, list[str]] = {}
        for path, cell in cells_of(self._net):
            for name, parameter in cell._params.items():
                if parameter is not None:
                    names.setdefault(id(parameter), []).append(f"{path}.{name}" if path else name)
        return [
            Held.of(dict.fromkeys([*names.get(id(p), []), name]), data_of(p))
            for name, p in self._parameters.items()
        ]

    def gradients(
        self, inputs: Mapping[str, np.ndarray], weights: Sequence[np.ndarray | None]
    ) -> dict[str, np.ndarray]:
        """Return the gradient of every Parameter that has one; see `Differentiable`."""
        import mindspore
        from mindspore import Tensor

        held = {n: p for n, p in self._parameters.items() if kind_of(array_of(p)) in "fc"}
        if not held:
            raise ModelError("E702", "no Parameter has a gradient")

        def loss() -> Any:
            total = Tensor(0.0, mindspore.float32)
            for output, weight in zip(flatten_results(self._net(*self._bind(inputs))), weights, strict=True):
                if weight is not None:
                    total = total + (output * Tensor(weight, output.dtype)).sum()
            return total

        frozen = [p for p in held.values() if not p.requires_grad]
        with evaluating(self._cells):
            try:
                for parameter in frozen:  # MindSpore gives the gradient of a frozen one as zeros
                    parameter.requires_grad = True
                found: Any = mindspore.grad(loss, None, list(held.values()))()  # type: ignore[arg-type]
                return dict(zip(held, map(array_of, found), strict=True))
            except Exception as error:  # as in `run`
                raise refusal("differentiate", error) from error
            finally:
                for parameter in frozen:
                    parameter.requires_grad = False

    @property
    def kernel_errors(self) -> KernelErrors:
        """Errors of coarse kernels; see `Coarse`."""
        return KERNEL_ERRORS

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that MindSpore's arithmetic may cost; see `Runner`."""
        return ulp_tolerance_of(operators)

    def _put_back(self, tensor: Any, value: Any) -> None:
        set_value(tensor, value)


KERNEL_ERRORS: KernelErrors = {
    "aten.exp": KernelError(relative=5.0),
    "aten.expm1": KernelError(absolute=1.0),
    "aten.log": KernelError(absolute=0.75),
    "aten.log1p": KernelError(absolute=1.0),
    "aten.softplus": KernelError(absolute=8.0),
    "aten.log_sigmoid_forward": KernelError(absolute=8.0),
    "aten.mish": KernelError(absolute=8.0),
}
"""Errors of MindSpore's kernels on the CPU, as far as a target may be off by four times as much.

Measured were 27 units of exp between -1 and 1, more beyond; of 1, 2.3 units of log, 30 of softplus and 8 of
mish, and half a unit to a unit of expm1 and log1p, which are 0 of operands below 6e-8."""


def ulp_tolerance_of(operators: Sequence[Operator]) -> int:
    """Return the units in the last place that MindSpore's arithmetic may cost in operators."""
    # exp is good to 18, sigmoid to 7, but tanh ends at |x| = 5, 1e-4 (843 units) short of 1 (2.10 on x86)
    coarse = any(o.traits.recurrent or o.qualified_name == "Tanh" for o in operators)
    return 2048 if coarse else 64


def _precisions(graph: Graph) -> dict[str, str]:
    """Return path of a module -> the coarsest floating-point type that its own operators compute in."""
    names, found = graph.modules.call_names(), dict[str, str]()
    for _, node in walk_operators(graph):
        path = "" if node.call is None else names[node.call].rpartition("#")[0]
        for type_ in node.types:
            if type_ is not None and EPSILON.get(type_.dtype, 0.0) > EPSILON.get(found.get(path, ""), 0.0):
                found[path] = type_.dtype
    return found


def _make_rounding_call(change: Change, precision_of: Callable[[Any], str]) -> Callable[..., Any]:
    """Return a replacement of `Cell.__call__` that adds rounding errors to results of layers with weights.

    Changing weights would not do: it shifts a plane of equal inputs as a whole, which a normalisation behind
    it removes. The errors are constants, so gradients of a training step are not affected. They are those of
    the type that the layer computes in, which may cast what it gives back to a finer one.
    """
    from mindspore import Tensor
    from mindspore.nn import Cell

    original = Cell.__call__

    def call(cell: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(cell, *arguments, **keywords)
        weighted = any(p is not None and len(p.shape) > 1 for p in cell._params.values())
        if not weighted or not isinstance(result, Tensor):
            return result
        values = array_of(result)
        if kind_of(values) not in "fc":
            return result
        return result + Tensor(change(values, precision_of(cell)) - values, result.dtype)

    return call


def model_runner(graph: Graph) -> MindSporeRunner:
    """Return a runner of the live Cell; see `registry`."""
    return MindSporeRunner.of_graph(graph)


def output_runner(path: Path, threads: int | None = None, *, optimised: bool = True) -> MindSporeRunner:
    """Return a runner of an emitted folder; see `registry`."""
    del threads, optimised  # MindSpore takes their number from OMP_NUM_THREADS, and fuses nothing in PyNative
    return MindSporeRunner.of_folder(path)


def constructed(folder: Path) -> Graph:
    """Return the tree of the net that a folder's ``build(checkpoint=None)`` draws; see `registry`."""
    return drawn_net(folder)


def written_net(folder: Path) -> WrittenNet:
    """Return the parameters and inputs of the net that a folder builds; see `registry`."""
    return describe_net(folder)
