"""How weights are stored: turned where every use would turn them."""

from __future__ import annotations

from dataclasses import replace

from ...ir import Graph, Operator, TensorData, Value


def turn_weights(legal: Graph) -> dict[int, tuple[int, ...]]:
    """Store a matrix (in, out) that is (out, in) in the source, where all its uses transpose it.

    MatMul has no attribute for it, so each Linear would carry a Transpose of its own. A weight that something
    else reads too, such as a tied embedding, stays as it is: it is stored once.

    Args:
        legal: a graph of ONNX operators; its parameters and operators change.

    Returns:
        Key of each parameter that is turned -> its shape now.
    """
    returned = {value.node for _, value in legal.outputs}
    turned: dict[int, tuple[int, ...]] = {}
    for parameter in list(legal.parameters()):
        users = [legal.node(key) for key in legal.flow.succ[parameter.key]]
        kept = returned & {parameter.key, *(user.key for user in users)}
        if not users or kept or not all(map(_is_transpose, users)):
            continue
        parameter.data = _turned(parameter.data)
        turned[parameter.key] = parameter.data.shape
        for user in users:
            legal.replace_uses(Value(user.key), Value(parameter.key))
            legal.remove(user.key)
    return turned


def _is_transpose(node: object) -> bool:
    return isinstance(node, Operator) and node.qualified_name == "Transpose" and node.ints("perm") == [1, 0]


def _turned(data: TensorData) -> TensorData:
    """The transposed matrix, of which no copy is made."""
    load = None if data.load is None else lambda: data.numpy().T
    return replace(data, shape=data.shape[::-1], load=load, storage=None, digest="")
