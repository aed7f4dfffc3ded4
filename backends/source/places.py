"""The places of an emitted net's parameters and constants, by which a checkpoint names them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import BackendError, TensorData
from .emitting import Extra
from .modules.emitted_net import EmittedNet


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """The place of a parameter in the emitted net.

    Attributes:
        name: its name there.
        transform: what happens to its values.
        shape: its shape there.
        ties: its further names, if several modules hold it.
    """

    name: str
    transform: str
    shape: tuple[int, ...]
    ties: tuple[str, ...] = ()


@dataclass
class Program:
    """An emitted model.

    Attributes:
        text: source of model.py.
        targets: parameter key -> its place, for the parameters that are emitted.
        extra: vectors that the framework's layers hold and the source does not.
        renamed_modules: source module path -> emitted path, where they differ.
        constants: (name, values) of constants too long for the source.
        buffers: names of tables and constants that no initial distribution gives.
    """

    text: str
    targets: dict[int, ParameterPlace] = field(default_factory=dict)
    extra: list[Extra] = field(default_factory=list)
    renamed_modules: dict[str, str] = field(default_factory=dict)
    constants: list[tuple[str, TensorData]] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)


def record_places(net: EmittedNet, program: Program) -> None:
    """Record where every parameter went, and the module paths that changed."""
    emitted = {key: found[0] for key, found in net.paths.items()}
    provenance = net.graph.provenance
    sources = {**net.modules.paths, **(provenance.modules if provenance else {})}
    for key in net.modules.position:
        if emitted[key] != sources[key]:
            program.renamed_modules[sources[key]] = emitted[key]
    for key, other in provenance.merged.items() if provenance else ():
        program.renamed_modules[sources[other]] = emitted[other]  # which is called first
        program.renamed_modules[sources[key]] = emitted[other]
    for parameter, holders in net.modules.declared.items():
        state = net.by_module[holders[0]].state[parameter]
        node = net.graph.parameter(parameter)
        data = node.data
        if net.dialect.constants_file and node.is_buffer and node.role == "non_persistent":
            program.constants.append((join_path(emitted[holders[0]], state.name), data))
            continue
        names = [join_path(p, net.by_module[h].state[parameter].name) for h in holders for p in net.paths[h]]
        program.targets[parameter] = ParameterPlace(
            names[0],
            state.transform,
            state.shape or tuple(data.shape),
            tuple(names[1:]),
        )
        if node.is_buffer and net.dialect.distribution(node) is None:
            program.buffers.append(program.targets[parameter].name)
        forms = {(s.transform, s.shape) for h in holders if (s := net.by_module[h].state[parameter])}
        if len(forms) > 1:
            raise BackendError(
                "E602",
                "expected one layout of a tied parameter, got several",
                place=net.graph.parameter(parameter).name,
            )
    for key, module in net.by_module.items():
        for name, data in module.constants:
            program.constants.append((join_path(emitted[key], name), data))
            program.buffers.append(join_path(emitted[key], name))
        program.extra += [
            (join_path(emitted[key], n), fill, size, dtype) for n, fill, size, dtype in module.extra
        ]


def join_path(path: str, name: str) -> str:
    """Return the name of a member of the module at a path."""
    return f"{path}.{name}" if path else name
