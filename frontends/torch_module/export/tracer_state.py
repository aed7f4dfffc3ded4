"""Reads the state of torch that a trace depends on, and what its tracer keeps while it records nodes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import CodeType
from typing import TYPE_CHECKING, Any

from .module_likeness import Unlike

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

_SHOWN_ALIKE = 3
"""Frames alike that Python shows of many."""


def set_node(tracer: Any, tensor: Any, node: Node, constant: Any) -> None:
    """Make a node that of a tensor, and the values known of it."""
    from torch.fx import Proxy
    from torch.fx.experimental.proxy_tensor import _ProxyTensor, set_proxy_slot

    set_proxy_slot(tensor, tracer, _ProxyTensor(Proxy(node, tracer), constant))


def fake_tensor(shape: Any, strides: Any, dtype: Any, device: Any, mode: Any) -> Any:
    """Return a new tensor without values."""
    import torch
    from torch._dispatch.python import no_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

    with no_python_dispatcher(), in_kernel_invocation_manager(mode):
        values = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, values, device)


def make_fakes(mode: Any, parameters: Iterable[torch.Tensor]) -> list[Any]:
    """Make the fake tensors that torch would make of parameters, in the same order; a mode finds them.

    torch describes each tensor in forty answers first, half of the time; a plain parameter needs none.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._mode_utils import no_dispatch

    converter = getattr(mode.fake_tensor_converter, "meta_converter", None)
    describer = getattr(converter, "describer", None)
    if converter is None or describer is None or describer.copy_data:
        return []
    found: list[Any] = []
    for tensor in parameters:
        storage = tensor.untyped_storage() if _is_plain_parameter(tensor) else None
        if storage is None or not storage.size() or storage in describer.lookup_storage:
            found.append(mode.from_tensor(tensor, static_shapes=True))
        elif tensor not in describer.lookup_tensor:
            with no_dispatch():
                values = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
                made = FakeTensor(mode, values, tensor.device)
            made._is_param = True
            converter.storage_memo[describer.get_storage_id(storage)] = made.untyped_storage()
            mode.fake_tensor_converter.set_tensor_memo(tensor, made)
            found.append(made)
    return found


def _is_plain_parameter(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a parameter of torch's own class, whole and dense, that needs no gradient now."""
    import torch

    native: Any = torch._C
    return (
        type(tensor) is torch.nn.Parameter
        and not native._functorch.is_functorch_wrapped_tensor(tensor)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_nested or tensor.is_quantized or tensor.is_inference())
        and not (tensor._is_view() or tensor.is_conj() or tensor.is_neg())
        and not tensor.__dict__.get("_is_buffer")
        and not native._is_torch_function_mode_enabled()
        and tensor.grad is None
        and tensor.storage_offset() == 0
        and tensor.is_contiguous()
    )


def slot(tracer: Any, tensor: Any) -> Any:
    """Return what the tracer keeps of a tensor: the proxy of a node, and values where they are known.

    Raises:
        Unlike: when it keeps nothing.
    """
    found = tracer.tensor_tracker.get(tensor)
    if found is None:
        raise Unlike
    return found


def can_copy(node: Node, known: set[Node]) -> bool:
    """Whether a node can be copied: it reads nothing but what was given, what was recorded, and sizes."""
    import torch

    return (
        node.op == "call_function"
        and not isinstance(node.target, torch._ops.HigherOrderOperator)
        and "nn_module_stack" in node.meta
        and all(n in known or is_size(n.meta.get("val")) for n in node.all_input_nodes)
    )


def is_size(value: object) -> bool:
    """Whether the value of a node is a symbolic size or number."""
    import torch

    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def name_asked(graph: Any, node: Node) -> str:
    """Return the name that a node was asked to have, to which torch adds a number."""
    packet = getattr(node.target, "overloadpacket", None)
    names = [graph._target_to_str(node.target)]
    if packet is not None:
        names.insert(0, graph._target_to_str(packet.__name__))
    for name in names:
        rest = node.name.removeprefix(name.replace(".", "_"))
        if rest != node.name and (not rest or (rest[0] == "_" and rest[1:].isdigit())):
            return name
    raise Unlike


def stack_around(tracer: Any) -> list[tuple[str, tuple[str, str]]]:
    """Return the modules that are being called, as nodes have them."""
    return [
        (key, (path, f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else kind))
        for key, (path, kind) in tracer.module_stack.items()
    ]


_shown: dict[int, tuple[CodeType, bool]] = {}
_texts: dict[tuple[int, int], str] = {}


def lines_here(tracer: Any) -> str:
    """Return the lines of code that lead here, as torch gives them to a node, read off Python's own frames.

    torch describes each frame of the stack before it sorts out all but a few: a tenth of an export's time.
    """
    from torch.utils._traceback import CapturedTraceback

    if not tracer._record_forward_stack_traces_only:
        frames = tracer._filter_traceback_frames(CapturedTraceback.extract().summary())
        return "".join(frames.format()).strip()
    frame, texts = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        known = _shown.get(id(code))
        if known is None:
            known = _shown[id(code)] = code, _is_shown(code)  # held, so that no other takes its identity
        if known[1]:
            line = frame.f_lineno
            text = _texts.get((id(code), line))
            if text is None:
                text = _texts[id(code), line] = _text(code, line)
            texts.append(text)
        frame = frame.f_back
    return "".join(_without_many_alike(texts[::-1])).strip()


def forget_code() -> None:
    """Forget the code of the models that were traced."""
    _shown.clear()
    _texts.clear()


def _is_shown(code: CodeType) -> bool:
    """Whether torch shows the calls of a function in the lines that lead to a node."""
    from torch.fx import proxy
    from torch.fx.experimental.symbolic_shapes import uninteresting_files

    name, file = code.co_name, code.co_filename
    anchors: Any = getattr(proxy, "_STACK_TRACE_ANCHORS", ())
    shown = name == "forward" or file.endswith("torch/__init__.py") or (file, name) in anchors
    return shown and file not in uninteresting_files()


def _text(code: CodeType, line: int) -> str:
    frames = [traceback.FrameSummary(code.co_filename, line, code.co_name)]
    return "".join(traceback.StackSummary.from_list(frames).format())


def _without_many_alike(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts of frames; of a line that calls itself over and over the first three."""
    for text, run in groupby(texts):
        repeated = len(list(run)) - _SHOWN_ALIKE
        yield text * (min(repeated, 0) + _SHOWN_ALIKE)
        if repeated > 0:
            yield f"  [Previous line repeated {repeated} more time{'s' if repeated > 1 else ''}]\n"


def modes() -> tuple[Any, ...]:
    """Return the modes of torch that change what a call records."""
    import torch
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        tuple(map(id, _get_current_function_mode_stack())),
        tuple(map(id, _get_current_dispatch_mode_stack())),
    )


def symbols_known(tensors: Iterable[Any]) -> Any:
    """Return how much is known of symbolic sizes: a call that adds to it, the next does not."""
    environment = next((t.fake_mode.shape_env for t in tensors), None)
    if environment is None:
        return None
    asserted = getattr(environment, "deferred_runtime_asserts", {})
    return (
        len(environment.var_to_range),
        len(environment.replacements),
        sum(map(len, asserted.values())),
    )


def global_hooks() -> int:
    """Return the number of hooks that run with every module."""
    from torch.nn.modules import module

    tables = [
        v for name, v in vars(module).items() if name.startswith(("_global_forward", "_global_backward"))
    ]
    return sum(map(len, tables))


def state_of_numpy() -> Any:
    """Return the state of NumPy's generator, in which equal states are equal; None without NumPy."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    kind, keys, *rest = numpy.random.get_state()
    return kind, tuple(keys.tolist()), *rest
