"""Emitters of what detectors do with boxes."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()

_MOST_ROWS = 1 << 10
"""Turns of a loop up to which symbols are read: what is written could not be compared with its source."""

_STEP: list[tuple[str, str, dict[str, str], list[int]]] = [
    ("null", "one", {}, []),
    ("null", "kept", {}, []),
    ("broadcast_mul", "own", {}, [0, 1]),
    ("sum", "stays", {"axis": "(1,)", "keepdims": "True"}, [2]),
    ("null", "hides", {}, []),
    ("broadcast_mul", "hidden", {}, [4, 3]),
    ("_rminus_scalar", "left", {"scalar": "1.0"}, [5]),
    ("elemwise_mul", "next", {}, [1, 6]),
]
"""Effect of a row on the rows after it, as (operator, name, attributes, inputs): a kept row removes those
that it hides. Variables are in the order in which the outputs need them, which is MXNet's own."""


@TABLE.op("regraft.Suppressed")
def suppressed(e: View) -> Reference:
    """Emit _foreach over the rows, whose state is which of all rows are kept."""
    (count,) = e.shape()[-1:]
    if len(e.shape()) != 2 or not isinstance(count, int):
        raise e.refused("expected a known number of rows of a batch")
    if count > _MOST_ROWS:
        raise e.refused(f"expected at most {_MOST_ROWS} boxes to be compared, got {count}")
    alive, hides = (e.node("Cast", [e.input(slot)], dtype="float32") for slot in (0, 1))
    ones = e.node("Reshape", [e.node("_eye", [], N=count, M=count, dtype="float32")], shape=(count, 1, count))
    rows = e.node("transpose", [hides], axes=(1, 0, 2))
    index, _ = e.node(
        "_foreach",
        [ones, rows, alive],
        num_args=4,
        num_outputs=2,
        num_out_data=1,
        in_data_locs=(0, 2),
        in_state_locs=(1,),
        remain_locs=(),
    )
    records: list[dict[str, object]] = [
        {
            "op": op,
            "name": f"{e.name}_{name}",
            **({"attrs": attributes} if attributes else {}),
            "inputs": [[source, 0, 0] for source in inputs],
        }
        for op, name, attributes, inputs in _STEP
    ]
    step = {
        "nodes": records,
        "arg_nodes": [n for n, (op, *_) in enumerate(_STEP) if op == "null"],
        "node_row_ptr": list(range(len(records) + 1)),
        "heads": [[3, 0, 0], [7, 0, 0]],
    }
    e.builder.nodes[index].subgraphs.append(step)
    return index, 1


@TABLE.op("RoiAlign")
def roi_align(e: View) -> Reference:
    """Emit ROIAlign, whose boxes begin with the number of their image."""
    o = e.operator
    if o.str("mode") != "avg":
        raise e.refused(f"expected the mean of the samples of a bin, got mode={o.str('mode')}")
    number = e.node("Cast", [e.node("expand_dims", [e.input(2)], axis=1)], dtype=e.type(1).dtype)
    return e.node(
        "_contrib_ROIAlign",
        [e.input(), e.node("Concat", [number, e.input(1)], dim=1, num_args=2)],
        pooled_size=(o.int("output_height"), o.int("output_width")),
        spatial_scale=o.float("spatial_scale"),
        sample_ratio=o.int("sampling_ratio") or -1,
        aligned=o.str("coordinate_transformation_mode") == "half_pixel",
    )
