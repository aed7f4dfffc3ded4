"""Runs PyTorch modules in eval mode, recording every module call, and leaves them as they were."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...frontends.torch_module.export.evaluation_mode import plainly, values_kept
from ...frontends.torch_module.export.tensors import (
    array_of,
    array_of_number,
    as_real,
    copied_array,
    quantised_like,
    replace_tensors,
    tensor_of,
    tensors_in,
    unquantised,
)
from ...frontends.torch_module.modules.live_state import Untouched
from ...frontends.torch_module.modules.tensor_classes import plain_parts
from ...frontends.torch_module.quantised_kernels import QuantisedKernels, failure_of, refuse_packed
from ...ir import Graph, ModelError, Operator, numpy_dtype, walk_operators
from ..training.step import Step
from .eager_runner import CallNames, EagerRunner
from .runs import ELUS, CallRecord, Changing, ElementProbe, KernelErrors, Placeholder, Run, Unrounded

if TYPE_CHECKING:
    import torch

    from ...frontends.training_script import RecipeFunction
    from ...ir.recipe import UpdateRule
    from ..recipes.torch_training import TorchTraining
    from ..recipes.trajectories import Batch, Trajectory

DOUBLE_LIMIT = 2_000_000_000
"""Most bytes of weights, or of one unfolded convolution, for which a float64 run counts as cheap."""


class TorchRunner(EagerRunner):
    """A torch module in eager mode.

    Args:
        graph: what the frontend made of it: names of inputs, outputs and modules.
        double: run a float64 copy, on float64 inputs, instead of the module itself. It is made on first use,
            as most comparisons need none; one that cannot be made is a ModelError then.
        imported: name in `sys.modules` to be removed on closing.
    """

    def __init__(self, graph: Graph, *, double: bool = False, imported: str = "") -> None:
        import torch

        super().__init__(imported)
        self._graph = graph
        self._double = double
        model: Any = graph.origin.model
        self._programme = isinstance(model, torch.export.ExportedProgram)
        if self._programme:
            try:
                model = model.module()
            except Exception as error:  # a file's program may contradict itself in any way
                raise ModelError("E702", f"torch cannot make a module of the program: {error}") from error
        self._given: Any = model
        self._widens = double
        self._errors: KernelErrors = {}
        self._kernels = QuantisedKernels()
        self.runtime = f"PyTorch {torch.__version__} (evaluation mode{', float64' if double else ''})"

    @cached_property
    def _model(self) -> Any:
        """The module that runs: the live one, or a float64 copy, which is a ModelError if it cannot be."""
        from .torch_double import copy_in_double

        return copy_in_double(self._given) if self._double else self._given

    @cached_property
    def _paths(self) -> dict[Any, str]:
        """Module object -> its path in the tree."""
        from ..training.torch_step import module_paths

        return {} if self._programme else module_paths(self._model, self._graph.modules)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the module; see `Runner`."""
        if self._widens:
            try:
                return self._run(inputs, calls, {})
            except ModelError:  # code that looks at element types may not take others than it asked for
                self._widens = False
        return self._run(inputs, calls, {})

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        import torch
        from torch.utils import _pytree as pytree

        records: dict[str, CallRecord] = {}
        handles: list[Any] = []
        with self._ready() as kept:
            if calls:
                self._start_recording()
                handles = self._hook(records, given, kept)
            try:
                arguments, keywords = self._bind(inputs)
                with self._widening():
                    result = self._model(*arguments, **keywords)
            except Exception as error:  # the user's forward may raise anything
                raise failure_of(error, self._given) from error
            finally:
                for handle in handles:
                    handle.remove()
            # inside, because what it returned may be a buffer whose values are put back at the end
            found = [x for x in pytree.tree_leaves(result) if not isinstance(x, str)]
            rows = self._no_rows if len(found) == len(self._graph.outputs) else {}
            arrays = [
                self._values(as_real(unquantised(x))).copy()
                if isinstance(x, torch.Tensor)
                else array_of_number(x)
                for x in (rows.get(at) if x is None else x for at, x in enumerate(found))
                if x is not None
            ]
        names = [name for name, _ in self._graph.outputs]
        if len(names) != len(arrays):
            names = [f"output{i}" for i in range(len(arrays))]
        order = {name: i for i, name in enumerate(self._graph.modules.call_names().values())}
        return Run(
            list(zip(names, arrays, strict=True)),
            dict(sorted(records.items(), key=lambda item: order.get(item[0], len(order)))),
            self._store,
        )

    @cached_property
    def _no_rows(self) -> dict[int, torch.Tensor]:
        """Number of an output whose rows data select -> one without rows, which models give as None."""
        found: dict[int, torch.Tensor] = {}
        for at, (_, value) in enumerate(self._graph.outputs):
            type_ = self._graph.type_of(value)
            if type_ is not None and type_.shape and not isinstance(type_.shape[0], int):
                rest = [n for n in type_.shape[1:] if isinstance(n, int)]
                if len(rest) == len(type_.shape) - 1:
                    found[at] = tensor_of(np.zeros((0, *rest), numpy_dtype(type_.dtype)))
        return found

    def meets_open_operator(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether NaN enters an operator whose documents leave open what it gives of it; see `Tracing`."""
        from .torch_undefined import watch

        with self._ready(), watch() as watching:
            arguments, keywords = self._bind(inputs)
            try:
                self._model(*arguments, **keywords)
            except Exception:  # the user's forward may raise anything; what it met before counts
                return bool(watching.met)
        return bool(watching.met)

    def selected_values(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the values by which a run selects elements; see `Selecting`."""
        from .torch_selected import selected_values

        with self._ready(), selected_values() as found:
            arguments, keywords = self._bind(inputs)
            self._model(*arguments, **keywords)
        return found

    @contextmanager
    def _ready(self) -> Iterator[Untouched]:
        """Open a with block in which the module may run: in eval mode, and unchanged afterwards."""
        import torch

        frozen = _Frozen(self._modules)
        with frozen, Untouched(self._model) as kept, torch.no_grad(), plainly(), self._corrected():
            yield kept

    @cached_property
    def _is_quantised(self) -> bool:
        """Whether the model has layers that compute on integers."""
        from ...frontends.torch_module.quantised.packed import is_quantised

        return not self._programme and is_quantised(self._model)

    def _corrected(self) -> AbstractContextManager[None]:
        """Return a with block in which kernels of quantised layers are corrected."""
        return self._kernels.corrected() if self._is_quantised else nullcontext()

    def run_unrounded(self, inputs: Mapping[str, np.ndarray]) -> Mapping[tuple[str, str, int], Unrounded]:
        """Run the module and return its values before they are rounded; see `Unrounding`."""
        with self._kernels.noting() as found:
            self._run(inputs, True, {})
        return {edge: Unrounded(array_of(steps.values), steps.unit) for edge, steps in found.items()}

    @property
    def saturated(self) -> list[str]:
        """The quantised operators whose sums a kernel saturated so far; see `Correcting`."""
        return sorted(self._kernels.saturated)

    @property
    def mixed(self) -> list[str]:
        """The clamps whose kernel exchanged elements so far; see `Correcting`."""
        return sorted(self._kernels.mixed)

    def _widening(self) -> AbstractContextManager[object]:
        """Return a with block that widens to float64 what the model makes or casts in less."""
        if not self._widens:
            return nullcontext()
        from .torch_double import in_double

        return in_double()

    def _bind(self, inputs: Mapping[str, np.ndarray]) -> tuple[list[Any], dict[str, Any]]:
        """Return inputs by keyword where `forward` has parameters of their names, else by position."""
        tensors = {name: tensor_of(value) for name, value in inputs.items()}
        if self._double:
            tensors = {n: t.double() if t.is_floating_point() else t for n, t in tensors.items()}
        arrange = self._graph.origin.arrange
        if arrange is not None:
            names = [node.name for node in self._graph.input_nodes()]
            # another net's inputs have names of their own, and stand in the order of this one's
            return arrange([tensors[n] for n in names] if set(names) == set(tensors) else [*tensors.values()])
        if not self._programme:
            parameters = inspect.signature(self._model.forward).parameters
            named = {n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
            if set(tensors) <= named:
                return [], tensors
        return list(tensors.values()), {}

    @cached_property
    def _modules(self) -> list[Any]:
        """The modules that have a mode; a programme has lost it."""
        return [] if self._programme else list(self._model.modules())

    @cached_property
    def _named_tensors(self) -> dict[str, Any]:
        """Parameters and buffers by the names that the graph has for them."""
        held = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
        return {
            name: held[path]
            for paths in self._graph.parameter_paths().values()
            for name in paths
            for path in paths
            if path in held
        }

    def gradients(
        self, inputs: Mapping[str, np.ndarray], weights: Sequence[np.ndarray | None]
    ) -> dict[str, np.ndarray]:
        """Return the gradient of every parameter; see `Differentiable`."""
        from .torch_gradients import gradients_of

        def forward() -> Any:
            arguments, keywords = self._bind(inputs)
            return self._model(*arguments, **keywords)

        with _Frozen(self._modules), Untouched(self._model), plainly():
            return gradients_of(self._model, self._named_tensors, forward, weights)

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Set parameters and buffers to other values, by name, until `close`.

        Raises:
            ModelError: where torch packs one of them for its kernels.
        """
        import torch

        named = self._named_tensors
        refuse_packed(values, named)
        with torch.no_grad():
            for name, value in values.items():
                tensor = as_real(named[name])
                self._kept.append((tensor, tensor.detach().clone()))
                tensor.copy_(tensor_of(value))

    def round_like(self, errors: KernelErrors) -> None:
        """Take errors into account that the other runtime's kernels have; see `RoundsLike`."""
        self._errors = errors

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Change every floating-point parameter and buffer in a with block; see `Runner`."""
        import torch

        from .torch_rounding import is_alterable, round_inside

        module = self._arguments[call][0] if call else self._model
        kind = torch.nn.Module  # an attribute of the module may hide `modules`
        held = {
            id(t): t for m in kind.modules(module) for t in (*m._parameters.values(), *m._buffers.values())
        }
        if only:
            held = {0: self._named_tensors.get(only)}
        plain = [part for t in held.values() if t is not None for part in plain_parts(t)]
        tensors = [part for part in plain if is_alterable(part)]
        with values_kept(tensors):
            with torch.no_grad():
                for tensor in tensors:
                    tensor.copy_(tensor_of(change(array_of(tensor))))
            with nullcontext() if only else round_inside(change, self._errors):
                yield

    def _hook(
        self, records: dict[str, CallRecord], given: Mapping[str, Sequence[np.ndarray]], kept: Untouched
    ) -> list[Any]:
        """Add hooks that record every call; values are copied, because in-place operators may change them.

        Args:
            records: receives the records, by name of the call.
            given: results that replace those of the calls named.
            kept: the block in which the model runs.
        """
        import torch
        from torch.compiler import is_dynamo_compiling
        from torch.utils import _pytree as pytree

        keep = self._store.keep
        names = CallNames()
        open_: list[tuple[Any, str, list[np.ndarray]]] = []
        has_left = False

        def enter(module: Any, arguments: Any, keywords: Any) -> None:
            if is_dynamo_compiling() or _is_transformed():
                return
            name = names.name(module, self._paths_of(module))
            leaves, spec = pytree.tree_flatten((arguments, keywords))
            inputs: list[np.ndarray] = []
            for i, leaf in enumerate(leaves):
                if isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter):
                    leaves[i] = Placeholder(len(inputs), leaf if leaf.is_quantized else None)
                    self._kernels.note(name, "inputs", len(inputs), leaf)
                    inputs.append(keep(array_of(leaf)))
            self._arguments[name] = (module, leaves, spec, kept.changed(module))
            open_.append((module, name, inputs))

        def leave(module: Any, _arguments: Any, _keywords: Any, result: Any) -> Any:
            nonlocal has_left
            if is_dynamo_compiling() or _is_transformed():
                return None
            has_left = True
            own, name, inputs = open_.pop()
            assert own is module
            if name in given:
                result = replace_tensors(result, list(map(tensor_of, given[name])))
            outputs = [keep(self._values(x)) for x in tensors_in(result)]
            for at, tensor in enumerate(tensors_in(result)):
                self._kernels.note(name, "outputs", at, tensor)
            rounded = tuple(x.is_quantized for x in tensors_in(result))
            entered = tuple(
                x.like is not None for x in self._arguments[name][1] if isinstance(x, Placeholder)
            )
            records[name] = CallRecord(
                type(module).__name__,
                inputs,
                outputs,
                rounded=rounded if any(rounded) else (),
                entered_rounded=entered if any(entered) else (),
            )
            others = self._instead(name, outputs)
            if others is not None:
                return replace_tensors(result, others)
            return result if name in given else None

        def end(module: Any, *_: Any) -> None:
            """Forget a call that raised: models try arguments, and call again without."""
            nonlocal has_left
            if not has_left and open_ and open_[-1][0] is module:
                names.forget(open_.pop()[1])
            has_left = False

        handles: list[Any] = []
        kind = torch.nn.Module  # whose methods an attribute of a module may hide
        for module in self._paths:
            handles.append(kind.register_forward_pre_hook(module, enter, with_kwargs=True))
            handles.append(kind.register_forward_hook(module, leave, with_kwargs=True))
            handles.append(kind.register_forward_hook(module, end, with_kwargs=True, always_call=True))
        return handles

    def _paths_of(self, module: Any) -> str | tuple[str, ...]:
        """Return the path under which calls of a module are recorded, or those that they take in turn."""
        return self._paths[module]

    def _instead(self, call: str, outputs: Sequence[np.ndarray]) -> Sequence[Any] | None:
        """Return the tensors that go on behind a recorded call; None for those that it gave."""

    def _values(self, tensor: Any) -> np.ndarray:
        """Return the values of a tensor that a module gave."""
        return array_of(tensor)

    def run_part(self, call: str, part: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call a module in the place of another one; see `Replacing`."""
        import torch
        from torch.utils import _pytree as pytree

        module, (_, leaves, spec, changed) = part, self._arguments[call]
        tensors = [tensor_of(value) for value in inputs]
        if self._double:
            tensors = [t.double() if t.is_floating_point() else t for t in tensors]
        filled = [
            (tensors[x.index] if x.like is None else quantised_like(tensors[x.index], x.like))
            if isinstance(x, Placeholder)
            else x
            for x in leaves
        ]
        arguments, keywords = pytree.tree_unflatten(filled, spec)
        kept = Untouched(module)
        with _Frozen(self._modules), kept, torch.no_grad(), plainly(), self._corrected(), self._widening():
            for table, name, value in changed:  # by modules that were called before it in the recorded run
                table[name].data = value.clone()
            try:
                result = module(*arguments, **keywords)
            except Exception as error:  # the user's forward may raise anything
                raise failure_of(error, self._given) from error
            return [copied_array(x) for x in tensors_in(result)]  # inside, as in `_run`

    def probe_elements(
        self, call: str, record: CallRecord, only: str, change: Changing
    ) -> ElementProbe | None:
        """Return some elements of a linear or convolution layer's result; see `ElementProber`."""
        from ..sensitivity.torch_element_probes import probe_elements

        module, _, _, changed = self._arguments[call]
        return None if changed else probe_elements(module, self._named_tensors.get(only), record, change)

    def step(self, inputs: Mapping[str, np.ndarray], seed: int, ranks: Sequence[int] = ()) -> Step:
        """Make one training step; see `training_step.Trainer`.

        Raises:
            ModelError: for an exported programme, which has lost its training mode, and see `torch_step`.
        """
        from ..training.torch_step import torch_step

        self._require_module()

        def forward() -> Any:
            arguments, keywords = self._bind(inputs)
            return self._model(*arguments, **keywords)

        paths = self._trained_paths()
        names = [name for name, _ in self._graph.outputs]
        with Untouched(self._model):
            return torch_step(self._model, paths, forward, names, seed, copied_array, ranks)

    def _trained_paths(self) -> dict[Any, str]:
        """Return module object -> the path by which a step names its parameters."""
        from ..training.torch_step import tree_paths

        return tree_paths(self._paths, self._graph.modules)

    def _lent(self) -> AbstractContextManager[object]:
        return Untouched(self._model)

    def _expressions(self) -> dict[int, str]:
        steps = {id(module): path.split(".") if path else [] for path, module in self._model.named_modules()}
        return {
            key: "net" + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path)
            for key, path in steps.items()
        }

    def _recorded_arguments(self, call: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
        from torch.utils import _pytree as pytree

        module, leaves, spec, _ = self._arguments[call]
        arguments, keywords = pytree.tree_unflatten(leaves, spec)
        bound = inspect.signature(module.forward).bind(*arguments, **keywords)
        return bound.args, bound.kwargs

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
        with self._lent():
            return self._training(function, reference).follow(batches, record, rules, precision)

    def _require_module(self) -> None:
        if self._programme:
            raise ModelError(
                "E702",
                "expected a module that can train, got an exported program",
                hint="give the module itself",
            )

    def _training(self, function: RecipeFunction, reference: str) -> TorchTraining:
        from ..recipes.torch_training import TorchTraining

        self._require_module()

        def forward(inputs: Mapping[str, np.ndarray]) -> Any:
            arguments, keywords = self._bind(inputs)
            with self._widening():
                return self._model(*arguments, **keywords)

        paths = self._trained_paths()
        return TorchTraining(self._model, paths, forward, function, reference, double=self._double)

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:  # noqa: ARG002 - all of them are good to that
        """Return the units in the last place that the runtime's arithmetic may cost; see `Runner`."""
        return 16

    def _put_back(self, tensor: Any, value: Any) -> None:
        import torch

        with torch.no_grad():
            tensor.copy_(value)


class _Frozen:
    """A with block in which a module tree is in eval mode; afterwards every flag is what it was.

    Attention runs its unfused operators, as in training, because the fused ones differ where a query sees no
    key.
    """

    def __init__(self, modules: Sequence[Any]) -> None:
        self._flags = [(module, module.training) for module in modules]

    def __enter__(self) -> None:
        import torch

        self._fastpath = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        for module, flag in self._flags:
            if flag:  # which is set slowly, and rarely needs to be
                module.training = False

    def __exit__(self, *_: object) -> None:
        import torch

        torch.backends.mha.set_fastpath_enabled(self._fastpath)
        for module, flag in self._flags:
            if module.training is not flag:
                module.training = flag


def _is_transformed() -> bool:
    """Whether code runs under a transform like `torch.vmap`, in which tensors have no values to read."""
    import torch

    library: Any = torch._C
    return library._functorch.peek_interpreter_stack() is not None


def model_runner(graph: Graph) -> TorchRunner:
    """Return a runner of the live module; see `registry`."""
    return TorchRunner(graph)


def exact_runner(graph: Graph) -> TorchRunner | None:
    """Return a runner of a float64 copy, or None where that is not cheap or not possible; see `registry`."""
    if sum(p.data.nbytes for p in graph.parameters()) > DOUBLE_LIMIT:
        return None
    from .torch_double import measure_unfolded

    if any(measure_unfolded(graph, node) > DOUBLE_LIMIT for node in graph.operators()):
        return None
    runner = TorchRunner(graph, double=True)
    if any(node.qualified_name in ELUS for _, node in walk_operators(graph)):
        try:  # whether there is one decides what their arithmetic may cost, before anything is compared
            _ = runner._model
        except ModelError:
            return None
    return runner
