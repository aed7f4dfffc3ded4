"""The functions of torch that are replaced while a module is captured, a row each; all are put back.

Beside them `tracing.py` adds to torch a `print` that prints nothing.

`patched` takes only what a row names. A row says why, and whether a torch without that function will do:
one whose name has a leading underscore may be gone in the next version.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....ir import ModelError

if TYPE_CHECKING:
    import torch
    from torch.nn import Module


@dataclass(frozen=True, slots=True)
class Patch:
    """A function or class of torch's that is replaced for a time.

    Attributes:
        home: the module, and after ``:`` the class, that it belongs to.
        name: its name there.
        why: what is gained.
        saves_only: whether the capture is the same without: then torch may lack it.
    """

    home: str
    name: str
    why: str
    saves_only: bool = False


PATCHES = (
    Patch("torch.export._trace", "_fakify_params_buffers", "values beside the fake parameters and buffers"),
    Patch(
        "torch.fx.experimental.proxy_tensor",
        "track_tensor",
        "numbers made of constants and buffers are known while tracing",
    ),
    Patch(
        "torch.fx.experimental.proxy_tensor",
        "CONSTANT_NUMEL_LIMIT",
        "values of constants of more than one element are known while tracing",
        saves_only=True,
    ),
    Patch(
        "torch.fx.graph",
        "pytree",
        "arguments of nodes that are copied are not searched for symbolic numbers again",
        saves_only=True,
    ),
    Patch(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv",
        "_log_real_tensor_propagation",
        "records the branches that the example decides",
    ),
    Patch(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv",
        "_evaluate_expr",
        "a selection by data is taken to have elements",
    ),
    Patch(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv",
        "_check_frozen",
        "records the branches that the example's sizes decide",
        saves_only=True,
    ),
    Patch(
        "torch._library.utils:MutationChecker",
        "check",
        "takes an optional tensor that is not given for one that is written",
        saves_only=True,
    ),
    Patch(
        "torch._export.passes.lift_constants_pass",
        "_unused_constant",
        "stops with an error at a constant that nothing uses, such as a `.data` that is assigned anew leaves",
        saves_only=True,
    ),
    Patch("torch", "from_numpy", "takes an array of torch's own NumPy for the tensor that it is"),
    Patch("torch.compiler", "is_compiling", "code that asks whether it is traced is told that it runs"),
    Patch("torch.compiler", "is_exporting", "as is_compiling"),
    Patch("torch._subclasses", "FakeTensor", "as is_compiling, for code that asks its tensors"),
    Patch("torch.autograd:Function", "apply", "names the gradients that a model writes itself"),
    Patch("torch.nn:Module", "to", "a move that changes nothing would swap parameters, which is refused"),
    Patch(
        "torch.nn.utils._named_member_accessor:NamedMemberAccessor",
        "get_submodule",
        "a submodule called `parameters` is found, and not the method",
    ),
    Patch(
        "torch.fx.experimental.proxy_tensor:_ModuleStackTracer",
        "call_module",
        "records calls of GraphModules; repeats what the call of an equal module recorded",
        saves_only=True,
    ),
    Patch(
        "torch.fx.experimental.proxy_tensor:_ModuleStackTracer",
        "create_node",
        "marks the casts to float32 that code writes out; describes the frames of models alone",
        saves_only=True,
    ),
    Patch("torch.nn:Module", "__setattr__", "counts the attributes that a forward assigns", saves_only=True),
    Patch("torch.nn:Module", "_call_impl", "repeats what the run of an equal module showed", saves_only=True),
    Patch("torch.fx._symbolic_trace:Tracer", "call_module", "a call that raises leaves the stack of calls"),
    Patch("torch.nn:MultiheadAttention", "forward", "one operator in place of many"),
    Patch("torch.nn:LSTM", "forward", "takes sequences beside their lengths, in place of packed ones"),
    Patch("torch.nn:GRU", "forward", "as LSTM"),
    Patch("torch.nn:RNN", "forward", "as LSTM"),
    Patch("torch.nn.utils.rnn:pack_padded_sequence", "__code__", "keeps sequences padded"),
    Patch("torch.nn.utils.rnn:pad_packed_sequence", "__code__", "as pack_padded_sequence"),
    Patch("torch.nn.utils.rnn", "_VF", "what the code of pack_padded_sequence calls instead"),
    Patch(
        "torch.nn.parallel:DistributedDataParallel",
        "forward",
        "runs the module that it wraps: what else it does is for training on several devices",
        saves_only=True,
    ),
    Patch(
        "torch._higher_order_ops.flex_attention:FlexAttentionHOP",
        "__call__",
        "computed as in eager mode, in operators on whole tensors",
    ),
    Patch(
        "torch.nn.modules.transformer",
        "_detect_is_causal_mask",
        "compares values of masks, for a hint that changes no result",
    ),
    Patch(
        "torch.backends",
        "opt_einsum",
        "finds the order of a product by numbers, which would fix symbolic sizes",
        saves_only=True,
    ),
    Patch(
        "torch.export._trace", "_detect_attribute_assignment", "refuses what later ones take", saves_only=True
    ),
    Patch("torch._decomp.decompositions", "one_layer_lstm", "takes off a wrong axis", saves_only=True),
    Patch("torch:SymFloat", "__int__", "records where a symbolic size becomes a number", saves_only=True),
    Patch(
        "torch",
        "_int_mm",
        "computes products of bytes exactly, which saturate in oneDNN for AVX2",
        saves_only=True,
    ),
    Patch(
        "torch._higher_order_ops.utils",
        "_hop_compile_and_call",
        "runs bodies of control flow as Python, in place of compiling them",
        saves_only=True,
    ),
    Patch(
        "torch.fx.experimental.proxy_tensor",
        "_extract_tensor_metadata",
        "node.meta['tensor_meta'] says again what node.meta['val'] says",
        saves_only=True,
    ),
    Patch(
        "torch.export._trace",
        "_replace_unbacked_bindings",
        "looks for symbols of data in all values, also where there is no such symbol",
        saves_only=True,
    ),
    Patch(
        "torch.export.exported_program",
        "_create_graph_module_for_export",
        "compiles the code of a graph, which nobody runs",
        saves_only=True,
    ),
    Patch(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "_cached_dispatch_impl",
        "finds shapes by rules, in place of decompositions",
        saves_only=True,
    ),
    Patch(
        "torch.utils._traceback",
        "_extract_symbolized_tb",
        "lines of source are read when they are printed",
        saves_only=True,
    ),
)
"""All that is replaced; test_torch_patches.py finds each of them in the installed torch."""

_ROWS = {(p.home, p.name): p for p in PATCHES}


def find_home(home: str) -> Any:
    """Return the module or class that a row names."""
    module, _, name = home.partition(":")
    found: Any = importlib.import_module(module)
    return getattr(found, name) if name else found


def original(home: str, name: str) -> Any:
    """Return what torch itself has there; None where it has nothing.

    Raises:
        KeyError: when no row names it.
    """
    return vars(find_home(_ROWS[home, name].home)).get(name)


@contextmanager
def patched(home: str, **attributes: Any) -> Iterator[None]:
    """Replace attributes of one of torch's modules or classes, by rows of `PATCHES`, until the block ends.

    Raises:
        ModelError: E101 when this version of torch has no such attribute, and the capture needs it.
        KeyError: when no row names it.
    """
    place = find_home(home)
    kept: dict[str, Any] = {}
    for name in attributes:
        row = _ROWS[home, name]
        if name in vars(place):
            kept[name] = vars(place)[name]
        elif name == "__code__":  # of a function that other modules may have imported by name
            kept[name] = place.__code__
        elif not row.saves_only:
            raise _not_in_this_torch(row)
    try:
        for name in kept:
            setattr(place, name, attributes[name])
        yield
    finally:
        for name, attribute in kept.items():
            setattr(place, name, attribute)


def _not_in_this_torch(row: Patch) -> ModelError:
    import torch

    return ModelError(
        "E101",
        f"expected `{row.home.replace(':', '.')}.{row.name}`, which torch {torch.__version__} does not have",
        hint="this version of torch is not supported: see the versions that `pip show regraft` requires",
    )


def seen_fakes(
    see: Callable[[dict[str, torch.Tensor], Module], None],
) -> AbstractContextManager[None]:
    """Call `see` with the fake parameters and buffers that an export makes, by name, and their module."""
    make_fakes = original("torch.export._trace", "_fakify_params_buffers")

    def make(mode: Any, module: Module) -> dict[str, torch.Tensor]:
        fakes: dict[str, torch.Tensor] = make_fakes(mode, module)
        see(fakes, module)
        return fakes

    return patched("torch.export._trace", _fakify_params_buffers=make)
