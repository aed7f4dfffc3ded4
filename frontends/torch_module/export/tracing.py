"""Tracing without what nothing here reads: code of graphs, second records of shapes, gradients, source lines.

Each saving replaces a function of torch while a module is exported, and is left out where a version of torch
has no such function. Exports come out the same, in about two thirds of the time (benchmarks/exporting.py).
"""

from __future__ import annotations

import importlib
import logging
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..modules.traced import is_traced
from .patches import original, patched
from .shape_rules import shapes_by_rule
from .tracer_state import forget_code, lines_here, make_fakes

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

_TRACER = "torch.fx.experimental.proxy_tensor:_ModuleStackTracer"


@contextmanager
def lean_tracing(module: Module) -> Iterator[None]:
    """Export `module` inside at less cost; its parameters need no gradients until the block ends."""
    import torch

    with ExitStack() as stack:  # an attribute of a model's own may hide its `parameters`
        stack.enter_context(frozen(torch.nn.Module.parameters(module)))
        stack.enter_context(_without_code())
        stack.enter_context(_fakes_of_parameters())
        stack.enter_context(shapes_by_rule())
        proxies = "torch.fx.experimental.proxy_tensor"
        stack.enter_context(patched(proxies, _extract_tensor_metadata=lambda _value: None))
        stack.enter_context(patched("torch.utils._traceback", _extract_symbolized_tb=_frames))
        stack.enter_context(_lines_off_frames())
        stack.enter_context(_symbols_of_data_where_there_are())
        stack.enter_context(_failed_calls_end())
        stack.enter_context(_graph_modules_called())
        stack.enter_context(_run_as_module(module))
        stack.enter_context(_states_of_lstm())
        stack.enter_context(_attributes_assigned())
        yield


def _attributes_assigned() -> AbstractContextManager[object]:
    """Let a forward keep tensors in attributes, which torch before 2.12 refuses; they are put back later."""
    from torch.torch_version import TorchVersion

    if TorchVersion(importlib.import_module("torch").__version__) >= "2.12":
        return nullcontext()
    return patched("torch.export._trace", _detect_attribute_assignment=lambda _module: nullcontext())


def _states_of_lstm() -> AbstractContextManager[None]:
    """Take off the axis that torch before 2.13 leaves in front of an LSTM's states, where it infers them."""
    infer = original("torch._decomp.decompositions", "one_layer_lstm")

    def one_layer_lstm(*args: Any, **kwargs: Any) -> Any:
        output, states = infer(*args, **kwargs)
        return output, tuple(state.squeeze(0) if state.dim() > 2 else state for state in states)

    return patched("torch._decomp.decompositions", one_layer_lstm=one_layer_lstm)


@contextmanager
def _lines_off_frames() -> Iterator[None]:
    """Give nodes the lines of code that lead to them without torch's description of the whole stack."""
    make = original(_TRACER, "create_node")
    if make is None:
        yield
        return

    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.record_stack_traces:
            return make(self, *args, **kwargs)
        self.record_stack_traces = False
        try:
            node = make(self, *args, **kwargs)
        finally:
            self.record_stack_traces = True
        if not node.stack_trace and (lines := lines_here(self)):
            node.stack_trace = lines
        return node

    try:
        with patched(_TRACER, create_node=create_node):
            yield
    finally:
        forget_code()


def _fakes_of_parameters() -> AbstractContextManager[None]:
    """Make the fake tensors of plain parameters without torch's description of each."""
    find = original("torch.export._trace", "_fakify_params_buffers")
    named = importlib.import_module("torch").nn.Module.named_parameters

    def find_fakes(mode: Any, module: Module) -> Any:
        made = make_fakes(mode, (tensor for _, tensor in named(module, remove_duplicate=False)))
        found = find(mode, module)
        del made  # a mode finds those only that something holds
        return found

    return patched("torch.export._trace", _fakify_params_buffers=find_fakes)


def _failed_calls_end() -> AbstractContextManager[None]:
    """Let a call that raises leave the stack of module calls: models try arguments, then call without."""
    call = original("torch.fx._symbolic_trace:Tracer", "call_module")

    def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call(self, *args, **kwargs)
        except Exception:
            while len(self.module_stack) > depth:
                _, (path, _) = self.module_stack.popitem()
                self.num_calls[path] -= 1
            raise

    return patched("torch.fx._symbolic_trace:Tracer", call_module=call_module)


def _graph_modules_called() -> AbstractContextManager[None]:
    """Record calls of the model's own GraphModules, which torch takes for bodies that it has made itself."""
    call = original(_TRACER, "call_module")

    def call_module(tracer: Any, module: Module, *args: Any) -> Any:
        from torch.fx import GraphModule, Tracer

        registered = isinstance(module, GraphModule) and module in (tracer.submodule_paths or {})
        return (Tracer.call_module if registered else call)(tracer, module, *args)

    return patched(_TRACER, call_module=call_module)


@contextmanager
def _run_as_module(root: Module) -> Iterator[None]:
    """Give a traced GraphModule a plain class in the block: torch interprets a GraphModule.

    An interpreter enters no call of a module and runs no hook.
    """
    from torch.fx import GraphModule

    if not is_traced(root):
        yield
        return
    code: Any = root
    _ = code.code  # which generates the code of `forward` where that is yet to be done
    kind = type(root)
    own = kind.__mro__[: kind.__mro__.index(GraphModule)]
    body = {name: value for each in reversed(own) for name, value in vars(each).items()}
    for name in ("__call__", "__dict__", "__weakref__"):
        body.pop(name, None)
    plain: Any = type(kind.__name__, tuple(GraphModule.__bases__), body)
    root.__class__ = plain
    try:
        yield
    finally:
        root.__class__ = kind


def unused_constants() -> AbstractContextManager[None]:
    """Constants that nothing uses are left out of a program, in place of stopping its export."""
    home = "torch._export.passes.lift_constants_pass"
    find = original(home, "_unused_constant")
    return patched(home, _unused_constant=lambda node: find(node) if node.users else [node])


@contextmanager
def unlogged(name: str) -> Iterator[None]:
    """Silence a logger: torch logs a traceback of the error that it then raises."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def silent() -> Iterator[None]:
    """Keep to itself what torch logs, prints and warns of while it exports."""
    with (
        unlogged("torch._subclasses.fake_tensor"),
        unlogged("torch.fx.experimental.symbolic_shapes"),
        _unprinted(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _unprinted() -> Iterator[None]:
    """Silence the graph that torch.export prints of a refused model."""
    home = vars(importlib.import_module("torch.export._trace"))
    home["print"] = lambda *_, **__: None
    try:
        yield
    finally:
        del home["print"]


@contextmanager
def frozen(parameters: Iterable[torch.Tensor]) -> Iterator[None]:
    """Stop gradients of tensors inside the block: autograd would record a trace that is thrown away."""
    trained = [p for p in parameters if p.requires_grad and p.is_leaf]
    for parameter in trained:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad = True


@contextmanager
def _without_code() -> Iterator[None]:
    """Generate the Python code of graphs on their first run, not after each of torch's passes."""
    lazy: Any = getattr(importlib.import_module("torch.fx"), "_lazy_graph_module", None)
    use = getattr(lazy, "_use_lazy_graph_module", None)
    if use is None:
        yield
        return
    program = "torch.export.exported_program"
    with use(True), patched(program, _create_graph_module_for_export=lazy._make_graph_module):
        yield


def _symbols_of_data_where_there_are() -> AbstractContextManager[None]:
    """Look for the symbols that data decide in the values of a program only where torch has made any."""
    steps = "torch.export._trace"
    replace = original(steps, "_replace_unbacked_bindings")
    if replace is None:
        return nullcontext()

    def replaced(program: Any) -> None:
        from torch._export.utils import _get_shape_env_from_gm
        from torch.utils._sympy.symbol import SymT, symbol_is_type

        environment: Any = _get_shape_env_from_gm(program)
        kinds = SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT
        if environment is None or any(symbol_is_type(s, kinds) for s in environment.var_to_range):
            replace(program)
            return
        for node in program.graph.nodes:
            node.meta.pop("unbacked_bindings", None)

    return patched(steps, _replace_unbacked_bindings=replaced)


def _frames(symbolized: Sequence[dict[str, Any]], skip: int) -> traceback.StackSummary:
    """Frames whose line of source is read when it is printed: all but one or two are sorted out before."""
    return traceback.StackSummary.from_list(
        [
            traceback.FrameSummary(f["filename"], f["line"], f["name"], lookup_line=False)
            for f in reversed(symbolized[skip:])
        ]
    )
