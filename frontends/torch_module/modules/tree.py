"""The module tree of a live module or a saved program: paths, aliases, parameters by identity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....ir import Graph, Initializer, ModelError, Parameter, TensorData
from ..export.tensors import array_of, as_real
from ..given_values import place_of
from ..module_stacks import normalised_stack
from ..symbols import dtype_of
from .initializers import DRAWN, initial_laws, is_home, is_torchs
from .lazy import uninitialised_error
from .plain_tensors import require_plain
from .traced import is_traced

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.nn import Module

_BATCH_NORM = ("running_mean", "running_var", "num_batches_tracked")


PARTS = "_quantised_parts"
"""Attribute of a module that holds quantised weights: name of a buffer -> role of that part of a weight."""


@dataclass(slots=True)
class Tree:
    """A graph's module tree, with the ways back from torch's objects.

    Attributes:
        graph: the graph that holds the tree.
        modules: ``id(module)`` -> module key.
        parameters: ``id(tensor)`` -> parameter node.
    """

    graph: Graph
    modules: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, int] = field(default_factory=dict)

    def layer_of(self, parameters: set[int]) -> int | None:
        """Return the single layer of torch that holds just these parameters (perhaps buffers), or None."""
        found = [
            module.key
            for module in self.graph.modules
            if parameters <= set(module.parameters.values())
            and not module.children
            and all(
                p.role and (p.key in parameters or p.is_buffer)
                for p in map(self.graph.parameter, module.parameters.values())
            )
        ]
        return found[0] if len(found) == 1 else None


def tree_of_module(graph: Graph, root: Module) -> Tree:
    """Fill the module tree of `graph` from a live module: every registration, by identity."""
    from .construction import laws_of

    require_plain(root)
    tree = Tree(graph)
    laws = initial_laws(root, laws_of(root))

    def visit(module: Module, parent: int | None, name: str, path: str, traced: bool = False) -> None:
        known = tree.modules.get(id(module))
        if known is not None:
            assert parent is not None
            graph.modules.register(parent, name, known)
            return
        key = graph.modules.add(
            type(module).__name__,
            parent,
            name,
            container=_container(module, traced),
            arguments=_constructor_arguments(module),
            namesake=type(module).__name__ in DRAWN and not is_torchs(module),
        )
        tree.modules[id(module)] = key
        _add_parameters(tree, module, key, path, laws)
        traced = traced or is_traced(module)
        for child_name, child in module._modules.items():
            if child is not None:
                visit(child, key, child_name, f"{path}{child_name}.", traced)

    visit(root, None, "", "")
    return tree


def tree_of_program(graph: Graph, program: ExportedProgram) -> Tree:
    """Fill the module tree of `graph` from a saved program: the paths that its tensors and operators name.

    A saved program knows no module objects: two paths are two modules, unless they hold the same tensors.
    """
    tree = Tree(graph)
    classes: dict[str, str] = {}
    others: set[str] = set()  # paths of modules that are only called as a layer of torch's
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        for key, (_, class_name) in zip(normalised_stack(stack), stack.values(), strict=False):
            home, _, name = str(class_name).rpartition(".")
            if classes.setdefault(key.partition("@")[0], name) in DRAWN and home and not is_home(home):
                others.add(key.partition("@")[0])
    keys = {"": graph.modules.add(classes.get("", "Module"))}

    def module_at(path: str) -> int:
        if path not in keys:
            parent, _, name = path.rpartition(".")
            class_name = classes.get(path, "Module")
            container = {"Sequential": "sequential", "ModuleList": "list", "ModuleDict": "dict"}.get(
                class_name
            )
            keys[path] = graph.modules.add(
                class_name, module_at(parent), name, container=container, namesake=path in others
            )
        return keys[path]

    signature = program.graph_signature
    buffers = set(signature.buffers)  # a list made anew when asked for
    seen: dict[object, int] = {}
    for name in [*signature.parameters, *signature.buffers]:
        tensor: Any = program.state_dict[name] if name in program.state_dict else program.constants[name]
        path, _, leaf = name.rpartition(".")
        identity = (storage_of(tensor), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        if identity[0] is None or identity not in seen:
            is_buffer = name in buffers
            trainable = not is_buffer and tensor.requires_grad
            role = leaf if is_buffer and leaf in _BATCH_NORM else ""
            if name not in program.state_dict:
                role = "non_persistent"
            seen[identity] = _add_parameter(tree, tensor, name, is_buffer, trainable, None, role)
        graph.modules.module(module_at(path)).parameters[leaf] = seen[identity]
        tree.parameters[id(tensor)] = seen[identity]
    for path in classes:
        if not path.startswith("_empty"):
            module_at(path)
    return tree


def lost_in_evaluation(root: Module) -> list[str]:
    """Return training behaviour that a program captured in evaluation mode does not show."""
    from torch import nn

    whole = nn.MultiheadAttention.forward  # such a layer is captured with its ratio
    alpha = (nn.AlphaDropout, nn.FeatureAlphaDropout)
    instance = nn.modules.instancenorm._InstanceNorm
    notes: list[str] = []
    for path, module in root.named_modules():
        if isinstance(module, alpha) and module.p:
            notes.append(f"`{path}` ({type(module).__name__}, p={module.p:g}) drops nothing in the graph")
        elif averages_all_batches(module):
            notes.append(
                f"`{path}` ({type(module).__name__}, momentum=None) averages the statistics of all batches, "
                "which a layer of PyTorch alone does: elsewhere each batch moves them by a tenth"
            )
        elif isinstance(module, instance) and module.track_running_stats:
            notes.append(
                f"`{path}` ({type(module).__name__}, track_running_stats=True) normalises each sample in "
                "training, which a layer of PyTorch alone does: elsewhere it is the batch"
            )
    for path, module in root.named_modules():
        if isinstance(module, nn.MultiheadAttention) and module.dropout and type(module).forward is not whole:
            notes.append(f"attention dropout of `{path}` ({module.dropout}) is not in the graph")
    return notes


def lost_in_file(graph: Graph) -> list[str]:
    """Return training behaviour that a saved program or archive does not show."""
    tree = graph.modules
    still = [
        tree.path(tree.call(node.call).module) if node.call is not None else "F.batch_norm"
        for node in graph.operators()
        if node.op_type == "BatchNormalization" and node.float("momentum") == 1.0
    ]
    return [
        f"`{path}` has momentum 0, which a file of PyTorch states of `momentum=None` too: its statistics "
        "stay as they are in training, and do not average all batches"
        for path in dict.fromkeys(still)
    ]


def averages_all_batches(module: Module) -> bool:
    """Whether the running statistics of a batch norm are the average of all batches so far."""
    from torch.nn.modules.batchnorm import _BatchNorm

    return isinstance(module, _BatchNorm) and module.track_running_stats and module.momentum is None


def storage_of(tensor: torch.Tensor) -> object:
    """Return identity of a tensor's memory, or None where it has none."""
    storage = tensor.untyped_storage()
    return ("torch", storage.data_ptr()) if storage.nbytes() and storage.data_ptr() else None


def _add_parameters(
    tree: Tree, module: Module, key: int, path: str, laws: dict[int, Initializer | None]
) -> None:
    from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

    held = tree.graph.modules.module(key).parameters
    tensors = [(n, t, False) for n, t in module._parameters.items()]
    tensors += [(n, t, True) for n, t in module._buffers.items()]
    for name, tensor, is_buffer in tensors:
        if tensor is None:
            continue
        if isinstance(tensor, UninitializedTensorMixin):
            raise uninitialised_error([f"{path}{name}"])
        if str(tensor.layout) != "torch.strided":
            raise ModelError(
                "E104",
                f"expected dense parameters and buffers, got one of the layout {tensor.layout}",
                place=f"{path}{name}",
                hint="register it as `tensor.to_dense()`: a product of matrices is the same",
            )
        if id(tensor) not in tree.parameters:
            tree.parameters[id(tensor)] = _add_parameter(
                tree,
                tensor,
                f"{path}{name}",
                is_buffer,
                not is_buffer and tensor.requires_grad,
                laws.get(id(tensor)),
                _role(module, name, is_buffer),
            )
        held[name] = tree.parameters[id(tensor)]


def _add_parameter(
    tree: Tree,
    tensor: torch.Tensor,
    name: str,
    is_buffer: bool,
    trainable: bool,
    initializer: Initializer | None,
    role: str,
) -> int:
    held = tensor if is_buffer else as_real(tensor.detach())  # of buffers, parts are constants
    data = TensorData(
        dtype_of(held.dtype),
        tuple(held.shape),
        lambda: array_of(tensor if is_buffer else as_real(tensor.detach())),
        storage_of(tensor),
        place=place_of(tensor),
        stays=lambda: tensor._version == 0,
    )
    return tree.graph.add_parameter(
        Parameter(
            name,
            name,
            data,
            trainable=trainable,
            is_buffer=is_buffer,
            initializer=None if tensor.is_complex() else initializer,  # a law of complex numbers
            role=role,
        )
    ).node


def _role(module: Module, name: str, is_buffer: bool) -> str:
    """Return a tensor's role: its attribute name in torch's own layers, or the part of a quantised weight."""
    if is_buffer and name in module._non_persistent_buffers_set:
        return "non_persistent"
    if part := vars(module).get(PARTS, {}).get(name):
        return part
    return name if type(module).__module__.startswith("torch.nn.modules") else ""


def _container(module: Module, traced: bool) -> str | None:
    """Return the kind of container that a module is; `traced`: whether torch.fx has traced one around it."""
    from torch import nn

    for cls, kind in ((nn.ModuleList, "list"), (nn.ModuleDict, "dict")):
        if isinstance(module, cls):
            return kind
    if traced and type(module) is nn.Module:  # which torch.fx puts in the place of each module around layers
        return "list" if list(module._modules) == list(map(str, range(len(module._modules)))) else "dict"
    plain = isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward
    return "sequential" if plain else None


def _constructor_arguments(module: Module) -> dict[str, object]:
    """Return the constructor arguments of torch's own layers, as far as they keep them."""
    if not type(module).__module__.startswith("torch.nn.modules"):
        return {}
    names: list[str] = list(getattr(module, "__constants__", ()))
    found: dict[str, Any] = {n: getattr(module, n) for n in names if hasattr(module, n)}
    return {
        n: v for n, v in found.items() if isinstance(v, (bool, int, float, str, tuple)) and n != "training"
    }
