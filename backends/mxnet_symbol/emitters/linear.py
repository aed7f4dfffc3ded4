"""Emitters of fully connected layers and matrix products."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("regraft.Linear")
def fully_connected(e: View) -> Reference:
    """Emit FullyConnected, with the source layer's own flattening."""
    x, flatten = e.input(), len(e.shape()) == 2
    before = e.producer(0)
    if before is not None and before.op_type == "Flatten" and before.location == e.operator.location:
        source = e.graph.operands(before.key)[0]  # the layer's own flattening
        assert source is not None
        x, flatten = e.builder.reference(source, e.name), True
    units = e.static_shape(1)[0]
    return e.node(
        "FullyConnected", [x, *e.inputs()[1:]], num_hidden=units, no_bias=not e.has(2), flatten=flatten
    )


@TABLE.op("MatMul")
def matrix_product(e: View) -> Reference:
    """Emit dot with a matrix, batch_dot or gemm2 with a stack of them."""
    left, right = e.shape(0), e.shape(1)
    if len(right) == 2:
        return e.node("dot", e.inputs())
    if len(left) != len(right) or left[:-2] != right[:-2]:
        raise e.refused("expected matrix products without broadcasting")
    return e.node("batch_dot" if len(left) == 3 else "_linalg_gemm2", e.inputs())


@TABLE.op("Gemm")
def gemm(e: View) -> Reference:
    """Emit FullyConnected, if the product is one."""
    o = e.operator
    if not o.int("transB") or o.int("transA") or o.float("alpha") != 1 or o.float("beta") != 1:
        raise e.refused("expected a Gemm that is a fully connected layer")
    return e.node("FullyConnected", e.inputs(), num_hidden=e.static_shape(1)[0], no_bias=not e.has(2))
