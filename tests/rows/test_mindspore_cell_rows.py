"""Every row of the MindSpore frontend, run by ONNX Runtime against MindSpore in PyNative mode."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from regraft.backends.onnx_model import to_model
from regraft.frontends.mindspore_cell import read
from regraft.frontends.mindspore_cell.operators import TABLE
from regraft.frontends.options import LoadOptions
from regraft.ir import validate

from .mindspore_cell import GROUPS
from .recording import rows_that_run

NAMED = [row for group in GROUPS.values() for row in group.rows]


def flat(found: object) -> list:
    return [v for f in found for v in flat(f)] if isinstance(found, (tuple, list)) else [found]


@pytest.mark.parametrize("name", GROUPS)
def test_rows_are_mindspores(name: str, tmp_path) -> None:
    import mindspore as ms

    group = GROUPS[name]
    net = group.cell(tmp_path, name).set_train(False)
    arrays = list(group.inputs.values())
    with rows_that_run(TABLE, "renamed", "functions") as ran:
        graph = read(net, [("", a) for a in arrays], LoadOptions(dynamic_batch=group.dynamic))
    assert set(group.rows) - ran == set()
    validate(graph)
    assert not [n for n in graph.origin.notes if "static" in n], graph.origin.notes
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString(), options)
    for given in [arrays, [np.concatenate([a, a[:1]]) for a in arrays]][: 1 + group.dynamic]:
        expected = [v.asnumpy() for v in flat(net(*map(ms.Tensor, given)))]
        got = session.run(None, dict(zip([i.name for i in session.get_inputs()], given, strict=True)))
        for number, (e, g) in enumerate(zip(expected, got, strict=True)):
            assert (g.dtype, g.shape) == (e.dtype, e.shape), number
            np.testing.assert_allclose(g, e, rtol=1e-4, atol=2e-5, err_msg=str(number))


def test_every_row_has_a_case() -> None:
    assert set(TABLE.names()) - set(NAMED) == set(), "declare a case in tests/rows/mindspore_cell"
    assert set(NAMED) - set(TABLE.names()) == set(), "no such row"
