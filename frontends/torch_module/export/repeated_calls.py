"""Calls of equal modules while a model is traced: one is traced, the others repeat what it recorded.

A trace takes as long for the last of forty-eight equal blocks as for the first. The nodes of a call follow
from its code, from what this reads, and from the arguments; where all of these are the same, a copy of the
nodes on the other block's parameters is what a trace would have recorded. What a call reads is its modules'
state (`module_likeness`), the modes of torch, and objects outside: whoever repeats calls looks whether a
trace has changed any of those, and then traces once more without.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from ..aliases import storage_of, written_argument
from ..module_stacks import normalised_stack
from .module_likeness import (
    OpenReads,
    Unlike,
    Varying,
    argument_described,
    equal_modules,
    identities,
    mapped,
    reads_noted,
    state_of,
    varying_attributes,
)
from .patches import original, patched
from .recorded_calls import Call, Calls, Copying, Op, Record, ResultTensor
from .stand_ins import StandIns, can_stand
from .tracer_state import (
    can_copy,
    fake_tensor,
    global_hooks,
    lines_here,
    modes,
    set_node,
    slot,
    stack_around,
    state_of_numpy,
    symbols_known,
)

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

_TRACER = "torch.fx.experimental.proxy_tensor:_ModuleStackTracer"


@dataclass(slots=True)
class Repetition:
    """Repeats calls of equal modules in one trace of a model.

    Args:
        root: the model.
        calls: the calls that the trace makes, to which those inside a repeated call are added.
        allow_stand_ins: whether nodes may stand for repeated calls until `spells_out`.

    Attributes:
        count: how many calls were repeated.
        is_whole: whether the last one was, to its end.
    """

    root: Module
    calls: Calls
    allow_stand_ins: bool = True
    count: int = 0
    is_whole: bool = True
    _records: dict[Any, list[Record]] = field(default_factory=dict)
    _varying: Varying = field(default_factory=dict)
    _equals: dict[int, int] = field(default_factory=dict)
    _hooks: int = 0
    _tracer: Any = None
    _writes: int = 0
    _reads: OpenReads = field(default_factory=OpenReads)
    _random: Any = None
    _stand_ins: StandIns = field(default_factory=StandIns)
    _storages: Iterator[int] = field(default_factory=lambda: count(-1, -1))
    """Numbers for the storages of copied nodes: no real storage has a negative one."""

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Repeat calls in the trace that runs inside the block."""
        import torch

        kind = torch.nn.Module  # whose `modules` an attribute of the model's own may hide
        self._varying = varying_attributes(kind.modules(self.root))
        self._equals = equal_modules(self.root, self._varying)
        self._hooks = global_hooks()
        self._random = (random.getstate(), state_of_numpy())
        call = original(_TRACER, "call_module")
        assign = original("torch.nn:Module", "__setattr__")

        def call_module(tracer: Any, module: Module, forward: Any, args: Any, kwargs: Any) -> Any:
            def run(*args: Any, **kwargs: Any) -> Any:
                return self._run(tracer, module, forward, args, kwargs)

            return call(tracer, module, run, args, kwargs)

        def assigning(module: Module, name: str, value: Any) -> None:
            if not type(module).__module__.startswith(("torch.fx.", "torch.export.")):  # torch's own wrappers
                self._writes += 1
            assign(module, name, value)

        with (
            reads_noted(self._varying, self._reads.note),
            patched(_TRACER, call_module=call_module),
            patched("torch.nn:Module", __setattr__=assigning),
        ):
            yield

    def spells_out(self, program: ExportedProgram) -> bool:
        """Replace each stand-in by the nodes of its call; False where torch has parted those of one call."""
        try:
            self._stand_ins.spell_out(program)
        except Unlike:
            return False
        return True

    def has_assigned(self) -> bool:
        """Whether code has assigned attributes of modules since the start."""
        return self._writes > 0

    def takes_back_draws(self) -> bool:
        """Undo the draws of Python's and NumPy's random numbers since the start; whether there were any."""
        numpy = sys.modules.get("numpy")
        state = (random.getstate(), state_of_numpy())
        if self._random == state:
            return False
        random.setstate(self._random[0])
        if numpy is not None and self._random[1] is not None:
            numpy.random.set_state(self._random[1])
        return True

    def _run(self, tracer: Any, module: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        import torch

        with torch._C.DisableTorchFunction():
            call, record = None, None
            with suppress(Exception):  # what cannot be described or compared is traced, as is an `Unlike`
                call = self._call(tracer, module, args, kwargs)
                record = self._find(call)
            if call is not None and record is not None:
                self.is_whole = False
                result = self._repeat(tracer, record, call)
                self.is_whole = True
                return result
        if call is None:
            return forward(*args, **kwargs)
        before = tracer.graph._root._prev, self._writes, len(self.calls), symbols_known(call.tensors)
        reads: dict[tuple[int, str], Any] = {}
        self._reads.append(reads)
        try:
            result = forward(*args, **kwargs)
        finally:
            self._reads.pop()
        with torch._C.DisableTorchFunction(), suppress(Exception):
            record = self._recorded(tracer, call, (args, kwargs), result, reads, before)
            self._records.setdefault(call.key, []).append(record)
        return result

    # -- before a call -----------------------------------------------------------------------------

    def _call(self, tracer: Any, module: Module, args: Any, kwargs: Any) -> Call:
        """Return what a call is given.

        Raises:
            Unlike: when it must be traced.
        """
        import torch
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        path = tracer.submodule_paths.get(module) if tracer.submodule_paths else None
        if path is None or module is self.root or tracer.enable_attr_proxy:
            raise Unlike
        if id(module) not in self._equals and tracer.num_calls.get(path, 0) < 2:
            raise Unlike
        chain = normalised_stack(tracer.module_stack)
        if not chain or getattr(get_proxy_mode(), "tracer", None) is not tracer:
            raise Unlike
        self._tracer = tracer if self._tracer is None else self._tracer
        native: Any = torch._C
        inside = native._functorch.peek_interpreter_stack()
        if tracer is not self._tracer or inside is not None or global_hooks() != self._hooks:
            raise Unlike
        tensors: list[Any] = []
        modules: dict[str, Module] = {}
        given = argument_described((args, kwargs), tensors)
        if any(type(t) is not FakeTensor or t.fake_mode.propagate_real_tensors for t in tensors):
            raise Unlike
        state = state_of(module, self._varying, tensors, modules)
        pattern = identities(map(id, tensors))
        each = list({id(t): t for t in tensors}.values())
        nodes = [slot(tracer, t).proxy.node for t in each]
        known = tuple([id(slot(tracer, t).constant) for t in each])
        memories = [storage_of(n) for n in nodes]
        shared = identities(memories)
        if len(set(nodes)) < len(nodes):
            raise Unlike
        now = modes()
        counts = {below: tracer.num_calls.get(path + below, 0) for below in modules}
        return Call(
            (state, given, pattern, known, shared, self._writes, now),
            each,
            nodes,
            memories,
            modules,
            path,
            counts,
            list(tracer.module_stack),
            chain,
            lines_here(tracer),
            now,
        )

    def _find(self, call: Call) -> Record | None:
        """Return the record of an equal call, and note what this one would have read."""
        records = self._records.get(call.key, ())
        return next((record for record in records if self._reads.repeat(record.read, call.modules)), None)

    # -- after a call ------------------------------------------------------------------------------

    def _recorded(
        self,
        tracer: Any,
        call: Call,
        arguments: Any,
        result: Any,
        reads: Mapping[tuple[int, str], Any],
        before: tuple[Any, int, int, Any],
    ) -> Record:
        """Return what a call has recorded.

        Raises:
            Unlike: when it is more than nodes.
        """
        last, writes, calls, symbols = before
        if (writes, symbols) != (self._writes, symbols_known(call.tensors)) or modes() != call.modes:
            raise Unlike
        if argument_described(arguments, []) != call.key[1]:
            raise Unlike  # a container that was given is another now
        nodes: list[Node] = []
        node = last._next
        while node is not tracer.graph._root:
            nodes.append(node)
            node = node._next
        known = {*nodes, *call.nodes}
        if not all(can_copy(node, known) for node in nodes):
            raise Unlike
        ops = self._stand_ins.ops(tracer.graph, nodes)
        depth, own, chained = len(call.keys), len(call.chain), call.chain[-1].partition("@")[0]
        for op in ops:
            keys = list(op.meta["nn_module_stack"])
            traced = (op.meta.get("stack_trace") or call.trace).startswith(call.trace)
            if not traced or keys[:depth] != call.keys:
                raise Unlike
            for key in keys[depth:]:
                call.split(key, call.path)
        inside = self.calls[calls:]
        for chain, _ in inside:
            if chain[:own] != call.chain:
                raise Unlike
            for key in chain[own:]:
                call.split(key, chained)
        paths = {id(module): below for below, module in call.modules.items()}
        if any(identity not in paths for identity, _ in reads):
            raise Unlike
        places = {op.node: at for at, op in enumerate(ops)}
        now = [slot(tracer, tensor).proxy.node for tensor in call.tensors]
        others = {at: node for at, node in enumerate(now) if node is not call.nodes[at]}
        if any(node not in places or written_argument(node) is not None for node in others.values()):
            raise Unlike
        placed, results = _result(tracer, result, call, places)
        sizes = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in known)
        record = Record(
            call,
            ops,
            placed,
            {(paths[identity], name): value for (identity, name), value in reads.items()},
            inside,
            {below: tracer.num_calls.get(call.path + below, 0) - n for below, n in call.counts.items()},
            {at: places[node] for at, node in others.items()},
            list(sizes),
            sorted({*results, *(places[node] for node in others.values())}),
        )
        record.can_stand = self.allow_stand_ins and can_stand(record)
        if not record.can_stand and len(ops) > len(nodes):
            raise Unlike
        return record

    # -- in the place of a call ----------------------------------------------------------------------

    def _repeat(self, tracer: Any, record: Record, call: Call) -> Any:
        """Add what an equal call recorded, and return what this one would have returned."""
        self.count += 1
        result, tensors, values = _built(record.result, call.tensors)
        copying = Copying(record, call, values, self._storages)
        around = dict(stack_around(tracer))
        if record.can_stand:
            made = self._stand_ins.add(tracer.graph, copying, around)
        else:

            def make(_at: int, op: Op, args: Any, kwargs: Any, notes: dict[str, Any]) -> Node:
                node = tracer.graph.create_node("call_function", op.target, args, kwargs, op.name, op.type)
                node.meta = notes
                return node

            made = dict(enumerate(copying.copy([*call.nodes, *record.sizes], around, make)))
        self._add_calls(record, call)
        for below, n in record.made.items():
            if n:
                tracer.num_calls[call.path + below] = call.counts[below] + n
        for at, place in record.others.items():
            set_node(tracer, call.tensors[at], made[place], slot(tracer, call.tensors[at]).constant)
        for at, tensor in tensors.items():
            set_node(tracer, tensor, made[at], None)
        return result

    def _add_calls(self, record: Record, call: Call) -> None:
        was, own = record.call, len(record.call.chain)
        old, new = (c.chain[-1].partition("@")[0] for c in (was, call))
        modules = {id(module): below for below, module in was.modules.items()}
        for chain, module in record.calls:
            keys = (*call.chain, *(call.moved(key, was, old, new) for key in chain[own:]))
            self.calls.append((keys, None if module is None else call.modules[modules[id(module)]]))


def _result(tracer: Any, value: Any, call: Call, places: Mapping[Node, int]) -> tuple[Any, list[int]]:
    """Return a result with a `ResultTensor` for each tensor, and the places of the nodes of those.

    Raises:
        Unlike: when it is or holds anything else than arguments may, or a view of what was given.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    memories = {t.untyped_storage()._cdata for t in call.tensors}
    found: dict[int, ResultTensor] = {}

    def placed(value: Any) -> Any:
        if type(value) is not FakeTensor:
            return value
        for at, given in enumerate(call.tensors):
            if given is value:
                return ResultTensor(at)
        if id(value) not in found:
            kept, memory = slot(tracer, value), value.untyped_storage()._cdata
            plain = value.storage_offset() == 0 and not (
                value.requires_grad or value.is_conj() or value.is_neg()
            )
            if kept.proxy.node not in places or kept.constant is not None or memory in memories or not plain:
                raise Unlike
            memories.add(memory)
            layout = (value.shape, value.stride(), value.dtype, value.device, value.fake_mode)
            found[id(value)] = ResultTensor(None, places[kept.proxy.node], layout)
        return found[id(value)]

    tensors: list[Any] = []
    argument_described(value, tensors)
    if any(type(t) is not FakeTensor for t in tensors):
        raise Unlike
    return mapped(value, placed), [tensor.node for tensor in found.values()]


def _built(result: Any, given: list[Any]) -> tuple[Any, dict[int, Any], dict[int, Any]]:
    """Return a result of new tensors and of those given, the new ones by place, and what their nodes hold."""
    from torch._subclasses.fake_impls import fast_detach
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    tensors: dict[int, Any] = {}
    values: dict[int, Any] = {}

    def built(value: Any) -> Any:
        if type(value) is not ResultTensor:
            return value
        if value.given is not None:
            return given[value.given]
        if value.node not in tensors:
            tensors[value.node] = tensor = fake_tensor(*value.layout)
            values[value.node] = fast_detach(tensor.fake_mode, tensor)
        return tensors[value.node]

    with disable_proxy_modes_tracing():
        return mapped(result, built), tensors, values
