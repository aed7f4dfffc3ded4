"""One training step of a PyTorch module, which is left as it was: values, modes, gradients, random state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...frontends.torch_module.export.evaluation_mode import plainly, values_kept
from ...frontends.torch_module.export.export_errors import hidden_error
from ...frontends.torch_module.export.tensors import as_real
from ...ir import ModelError, ModuleTree
from ..structure.torch_settings import RATIOS, argument
from .step import LEARNING_RATE, Step, Trained, output_weights

_BOOKKEEPING = frozenset(
    {"detach", "alias", "empty", "empty_like", "clone", "_to_copy", "view", "_unsafe_view"}
)
"""Operators whose presence does not change what is computed."""


def torch_step(
    model: Any,
    paths: Mapping[Any, str],
    forward: Callable[[], Any],
    names: Sequence[str],
    seed: int,
    array: Callable[[Any], np.ndarray],
    ranks: Sequence[int] = (),
) -> Step:
    """Make one forward in training mode, one backward, one SGD step.

    Args:
        model: the module.
        paths: module object -> its path.
        forward: calls the module on the inputs.
        names: names of the outputs.
        seed: seed of the loss's weights.
        array: copies a tensor into an array; complex ones are given as their parts on a last axis.
        ranks: see `Trainer`.

    Raises:
        ModelError: when training differs from inference in more than Dropout and batch statistics, draws
            random numbers, or fails (E702).
    """
    import torch
    from torch.utils import _pytree as pytree

    tensors = tensors_of(paths)
    with borrowed(model, tensors), without_dropout(model) as dropped, plainly():
        _refuse_frozen(model, paths)
        inference = _trace(model, paths, forward, training=False)
        with values_kept(tensors.values()):  # the trace in training mode has moved the running statistics
            training = _trace(model, paths, forward, training=True)
        _refuse_other_differences(inference, training)
        _refuse_other_dropouts(dropped)
        before = {name: array(as_real(tensor.detach())) for name, tensor in tensors.items()}
        result = _run(forward)
        leaves = [x for x in pytree.tree_leaves(result) if x is not None and not isinstance(x, str)]
        found = [as_real(x) if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in leaves]
        moved = {name: array(as_real(tensor.detach())) for name, tensor in tensors.items()}
        _backward(found, seed, ranks)
        trainable = {name: t for name, t in tensors.items() if t.requires_grad}
        if trainable:
            torch.optim.SGD(list(trainable.values()), lr=LEARNING_RATE).step()
        labels = list(names) if len(names) == len(found) else [f"output{i}" for i in range(len(found))]
        return Step(
            list(zip(labels, map(array, found), strict=True)),
            {
                name: Trained(
                    before[name],
                    moved[name],
                    array(as_real(tensor.detach())),
                    None if tensor.grad is None else array(as_real(tensor.grad)),
                    tensor.requires_grad,
                )
                for name, tensor in tensors.items()
            },
            _notes(dropped.zeroed),
        )


@dataclass(slots=True)
class _Dropped:
    """The dropouts of a model, disabled for a training step.

    Attributes:
        zeroed: the places whose ratio was changed.
        called: training mode -> the dropout functions that the model's own code called in it.
    """

    zeroed: list[str] = field(default_factory=list)
    called: dict[bool, list[str]] = field(default_factory=lambda: {False: [], True: []})


def _notes(zeroed: Sequence[str]) -> list[str]:
    if not zeroed:
        return []
    shown = ", ".join(zeroed[:4]) + (f" and {len(zeroed) - 4} more" if len(zeroed) > 4 else "")
    return [f"Dropout ratios were 0 on both sides for the training step: {shown}"]


def _run(forward: Callable[[], Any]) -> Any:
    import torch

    try:
        with torch.enable_grad():
            return forward()
    except ModelError:
        raise
    except Exception as error:  # the user's forward may raise anything
        raise ModelError(
            "E702",
            f"the torch module raised {type(error).__name__} in training mode: {error}",
            hint="batch statistics need more than one value per channel: give a larger batch with --input"
            if "more than 1 value per channel" in str(error)
            else "",
        ) from error


def _backward(outputs: Sequence[Any], seed: int, ranks: Sequence[int]) -> None:
    import torch

    terms = []
    for index, output in enumerate(outputs):
        rank = ranks[index] if ranks else index
        if output.is_floating_point() and output.requires_grad:
            weights = torch.from_numpy(output_weights(tuple(output.shape), seed, rank))
            terms.append((output * weights.to(output.dtype)).sum())
    try:
        if terms:
            torch.stack([term.to(terms[0].dtype) for term in terms]).sum().backward()
    except Exception as error:  # the user's own gradients, or values changed in place, may raise anything
        raise ModelError(
            "E702", f"the torch module cannot be trained: backward raised {type(error).__name__}: {error}"
        ) from error


def tensors_of(paths: Mapping[Any, str]) -> dict[str, Any]:
    """Return path -> every parameter and buffer, each tensor once, in the tree's order."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for module, path in paths.items():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{path}.{name}" if path else name] = tensor
    return found


@contextmanager
def borrowed(model: Any, tensors: Mapping[str, Any]) -> Iterator[None]:
    """Give a with block the model without gradients; restores flags, values, gradients, random state."""
    import torch

    modules = list(model.modules())
    flags = [(m, m.training, dict(m._parameters), dict(m._buffers)) for m in modules]
    kept = [(t, t.grad, t.requires_grad) for t in tensors.values()]
    state, fast = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it is for inference only: other operators
    try:
        with values_kept(tensors.values()):
            for tensor, *_ in kept:
                tensor.grad = None
            yield
    finally:
        for module, training, parameters, buffers in flags:
            module.training = training
            module._parameters.update(parameters)
            module._buffers.update(buffers)
        for tensor, gradient, trainable in kept:
            tensor.grad = gradient
            tensor.requires_grad_(trainable)
        torch.set_rng_state(state)
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def without_dropout(model: Any) -> Iterator[_Dropped]:
    """Set every Dropout's ratio to 0 in a with block, but not one of 1; gives what was changed and called."""
    import torch
    from torch.overrides import TorchFunctionMode

    dropped = _Dropped()
    zeroed = dropped.zeroed
    changed: list[tuple[Any, str, float]] = []

    class Zero(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            name = getattr(func, "__name__", "").rstrip("_")
            _, place, keyword = RATIOS.get(name, ("", 0, ""))
            if keyword:
                ratio = argument(args, kwargs, place, keyword)
                if ratio == 1.0:  # zeros whatever is drawn
                    return func(*args, **kwargs)
                if ratio and f"`{name}`" not in zeroed:
                    zeroed.append(f"`{name}`")
                if ratio and keyword == "p":  # the target has the dropouts that these functions make
                    dropped.called[bool(model.training)].append(name)
                if len(args) > place:
                    args = (*args[:place], 0.0, *args[place + 1 :])
                else:
                    kwargs[keyword] = 0.0
            return func(*args, **kwargs)

    dropouts = (torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d)
    for path, module in model.named_modules():
        attribute = "p" if isinstance(module, dropouts) else "dropout"
        ratio = vars(module).get(attribute)
        if (
            isinstance(module, (*dropouts, torch.nn.MultiheadAttention, torch.nn.RNNBase))
            and isinstance(ratio, float)
            and ratio not in (0.0, 1.0)
        ):
            changed.append((module, attribute, ratio))
            zeroed.append(path or "the root")
            setattr(module, attribute, 0.0)
    try:
        with Zero():
            yield dropped
    finally:
        for module, attribute, ratio in changed:
            setattr(module, attribute, ratio)


def _trace(
    model: Any, paths: Mapping[Any, str], forward: Callable[[], Any], *, training: bool
) -> list[tuple[str, str, bool]]:
    """Run once and list, in order, (innermost module's path, operator, whether it draws random numbers)."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[tuple[str, str, bool]] = []
    stack = [""]
    statistics = torch.nn.modules.batchnorm._NormBase

    class Tracer(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            name = "batch_norm" if "batch_norm" in name else name
            counts = bool(args) and id(args[0]) in counters
            if name not in _BOOKKEEPING and not inside[-1] and not counts:
                # attention could drop at random, but here its ratio is 0
                random = torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name
                calls.append((stack[-1], name, random))
            return func(*args, **(kwargs or {}))

    inside = [False]
    counters = {id(m._buffers.get("num_batches_tracked")) for m in model.modules()} - {id(None)}

    def enter(module: Any, *_: Any) -> None:
        stack.append(paths.get(module, stack[-1]))
        inside.append(isinstance(module, statistics))

    def leave(*_: Any) -> None:
        stack.pop()
        inside.pop()

    for module in model.modules():
        module.training = training
    kind = torch.nn.Module  # whose methods an attribute of a module may hide
    handles = [kind.register_forward_pre_hook(m, enter) for m in paths]
    handles += [kind.register_forward_hook(m, leave, always_call=True) for m in paths]
    try:
        with Tracer():
            _run(forward)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def train(model: Any) -> None:
    """Switch a model to training by its own `train`; E104 where an attribute hides what that calls."""
    try:
        model.train()
    except TypeError as error:
        if hidden := hidden_error(model, error):
            raise hidden from error
        raise


def _refuse_frozen(model: Any, paths: Mapping[Any, str]) -> None:
    """Refuse a model whose own `train` keeps a module in evaluation mode, as the target trains all of it."""
    train(model)
    frozen = [(path, module) for module, path in paths.items() if not module.training]
    if frozen:
        path, module = frozen[0]
        raise ModelError(
            "E702",
            f"expected all modules to train when the model does, but its `train()` keeps {len(frozen)} in "
            f"evaluation, the first `{type(module).__name__}`",
            place=path,
            hint="the emitted net trains them; in MindSpore BatchNorm2d takes use_batch_statistics=False",
        )


def _refuse_other_differences(
    inference: Sequence[tuple[str, str, bool]], training: Sequence[tuple[str, str, bool]]
) -> None:
    """Refuse a module that trains differently in more than Dropout and batch statistics."""
    random = next(((path, name) for path, name, drawn in training if drawn), None)
    if random is not None:
        raise ModelError(
            "E702",
            f"expected a training forward without random numbers other than Dropout's, got `{random[1]}`",
            place=random[0] or "the root module",
            hint="random dropout cannot be the same on both sides: set its ratio to 0 to compare",
        )
    for path in dict.fromkeys(p for p, _, _ in [*inference, *training]):
        plain, trained = ([n for p, n, _ in calls if p == path] for calls in (inference, training))
        if plain != trained:
            extra = [n for n in dict.fromkeys([*trained, *plain]) if trained.count(n) != plain.count(n)]
            raise ModelError(
                "E702",
                "expected training to differ from inference in Dropout and batch statistics only, but the "
                f"operators differ: {', '.join(extra) or 'their order'}",
                place=path or "the root module",
                hint="the target does not keep operators that run only in training",
            )


def _refuse_other_dropouts(dropped: _Dropped) -> None:
    """Refuse dropout functions called in one mode only, because the target has those of inference."""
    inference, training = dropped.called[False], dropped.called[True]
    if inference != training:
        name = (training or inference)[0]
        raise ModelError(
            "E702",
            f"expected the same calls of `{name}` and related functions in both modes, got {len(training)} "
            f"in training "
            f"and {len(inference)} in inference",
            hint="call it in both modes with training=self.training, or use nn.Dropout",
        )


def module_paths(model: Any, tree: ModuleTree) -> dict[Any, str]:
    """Return module object -> canonical path in the tree, following the registrations of both."""
    found: dict[Any, str] = {}
    stack = [(model, 0)]
    while stack:
        module, key = stack.pop()
        if module in found or key not in tree:
            continue
        found[module] = tree.path(key)
        for name, child in module._modules.items():
            registered = tree.module(key).children.get(name)
            if child is not None and registered is not None:
                stack.append((child, registered))
    return found


def tree_paths(paths: Mapping[Any, str], tree: ModuleTree) -> dict[Any, str]:
    """Return the same mapping in the tree's registration order."""
    order = {tree.path(module.key): i for i, module in enumerate(tree)}
    return dict(sorted(paths.items(), key=lambda item: order[item[1]]))
