"""Regions of `torch.vmap`, whose operators are on single slices, become operators on whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def without_vmap(program: ExportedProgram) -> ExportedProgram:
    """The program with every region of `torch.vmap` written out; itself where it has none.

    torch's own batching rules do that when it traces the program again, every operator as it is.
    """
    if any(
        getattr(node.target, "__module__", "") == "torch._functorch.predispatch"
        for node in program.graph.nodes
        if node.op == "call_function"
    ):
        return program.run_decompositions({})
    return program
