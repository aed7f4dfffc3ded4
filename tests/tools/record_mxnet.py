"""Records what MXNet 1.9.1 computes, for tests that run without it.

    python3.8 -m venv mxnet_env
    mxnet_env/bin/pip install "mxnet==1.9.1" "numpy<1.24"
    mxnet_env/bin/python tests/tools/record_mxnet.py          # every case that has changed or is new
    mxnet_env/bin/python tests/tools/record_mxnet.py --all

MXNet's last release needs Python 3.8 (its wheels are for 3.6 to 3.8 on Linux x86-64) and uses `numpy.bool`,
which NumPy 1.24 took away. That Python need not have regraft. Written are `rows.json` and `rows.npz` in
`tests/corpora/mxnet`, of the cases in `tests/rows/mxnet_symbol.py`, and `emitted.npz`, of the symbols in it,
which `pytest tests/rows/test_mxnet_emitter_rows.py --update-goldens` writes, and
`control_flow.json`, symbols that MXNet itself makes of functions, and `operators.txt`, the names of all
operators, and in `defaults.json` the defaults of those that it names: a new row is put there as ``{}`` first.
"""

import argparse
import ctypes
import hashlib
import importlib.util
import json
import os
from pathlib import Path

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")  # no operator is fused into another

import mxnet as mx
import numpy as np

TESTS = Path(__file__).resolve().parents[1]
CORPUS = TESTS / "corpora" / "mxnet"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="record cases again that have not changed")
    everything = parser.parse_args().all
    record_control_flow()
    record_files()
    record_steps()
    record_operators()
    record_defaults()
    rows, emitted = record_rows(everything), record_emitted()
    print(f"recorded {rows} rows and {emitted} emitted symbols with MXNet {mx.__version__}")


def record_rows(everything):
    """Run the cases of single operators; returns how many were run."""
    path = TESTS / "rows" / "mxnet_symbol.py"
    spec = importlib.util.spec_from_file_location("mxnet_symbol", str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = {r["id"]: r for r in read_json(CORPUS / "rows.json", [])}
    stored = read_arrays(CORPUS / "rows.npz")
    records, arrays, count = [], {}, 0
    for row, (attributes, inputs, *more) in sorted(module.CASES.items()):
        name = f"row/{row}"
        names = [f"x{number}" for number in range(len(inputs))]
        document = symbol_of(row.partition(" ")[0], attributes, names, *more)
        given = dict(zip(names, inputs))  # noqa: B905 - Python 3.8 has no `strict`
        digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
        for array in inputs:
            digest.update(array.tobytes())
        arrays.update({f"{name}/in/{n}": a for n, a in given.items()})
        if name in before and before[name]["case"] == digest.hexdigest() and not everything:
            records.append(before[name])
            arrays.update({k: v for k, v in stored.items() if k.startswith(f"{name}/out/")})
            continue
        of_numpy = row.startswith("_np")
        if of_numpy:
            document["attrs"]["is_np_shape"] = ["int", 1]
        with mx.util.np_shape(of_numpy):
            outputs = run(json.dumps(document), given, {})
        arrays.update({f"{name}/out/{number}": a for number, a in enumerate(outputs)})
        records.append(
            {
                "id": name,
                "case": digest.hexdigest(),
                "inputs": [{"name": n, "stored": True} for n in names],
                "params": [],
                "outputs": [{"shape": list(a.shape)} for a in outputs],
                "symbol": document,
            }
        )
        count += 1
    (CORPUS / "rows.json").write_text(json.dumps(records, indent=1) + "\n")
    write_arrays(CORPUS / "rows.npz", arrays)
    return count


def record_emitted():
    """Run the symbols that regraft wrote; returns how many."""
    stored = read_arrays(CORPUS / "emitted.npz")
    arrays = {k: v for k, v in stored.items() if "/out/" not in k}
    families = [k.rpartition("/")[0] for k in arrays if k.endswith("/symbol")]
    for family in families:
        given, held = (
            {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}
            for start in (f"{family}/in/", f"{family}/param/")
        )
        for number, output in enumerate(run(arrays[f"{family}/symbol"].tobytes().decode(), given, held)):
            arrays[f"{family}/out/{number}"] = output
    write_arrays(CORPUS / "emitted.npz", arrays)
    return len(families)


def record_operators():
    """Write the names by which MXNet saves its operators."""
    library, count, names = mx.base._LIB, ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    library.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names))
    saved = set()
    for number in range(count.value):
        operator, name = ctypes.c_void_p(), ctypes.c_char_p()
        library.NNGetOpHandle(names[number], ctypes.byref(operator))
        library.MXSymbolGetAtomicSymbolName(operator, ctypes.byref(name))
        saved.add(name.value.decode())
    text = "\n".join(sorted(name for name in saved if not name.startswith("_backward")))
    (CORPUS / "operators.txt").write_text(text + "\n")


_OWN = {
    "_linspace": {"endpoint": "True", "ctx": "", "dtype": "float32"},
    "_npi_concatenate": {"axis": "0"},
}
"""Operators whose documentation in MXNet lists the attributes of another one."""


def record_defaults():
    """Write the attributes that have defaults, of every operator that the file names."""
    library, path = mx.base._LIB, CORPUS / "defaults.json"
    texts = ctypes.POINTER(ctypes.c_char_p)
    found = {}
    for operator in read_json(path, {}):
        handle, kinds, names, docs = ctypes.c_void_p(), texts(), texts(), texts()
        one, two, three, four = (ctypes.c_char_p() for _ in range(4))
        count = ctypes.c_uint()
        library.NNGetOpHandle(operator.encode(), ctypes.byref(handle))
        given = one, two, count, names, kinds, docs, three, four
        library.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, given))
        found[operator] = {}
        for number in range(count.value):
            kind = kinds[number].decode()
            if "default=" in kind:
                name, text = names[number].decode(), kind.partition("default=")[2].strip().strip("'")
                found[operator][name] = as_saved(text, kind.startswith("boolean"))
        found[operator] = _OWN.get(operator, found[operator])
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(found.items()))
    path.write_text("{\n" + rows + "\n}\n")


def as_saved(text, is_flag):
    """Return a default as Python gives it to MXNet, of which the documentation shows all digits."""
    if is_flag:
        return {"0": "False", "1": "True"}.get(text, text)
    if "." not in text or text[0] in "[(":
        return text
    lengths = (f"{float(text):.{digits}g}" for digits in range(1, 18))
    return repr(float(next(short for short in lengths if np.float32(short) == np.float32(text))))


def record_control_flow():
    """Make symbols with loops and conditions, and run them."""
    variable, contrib = mx.sym.Variable, mx.sym.contrib
    a, b = variable("a"), variable("b")
    loop, (state,) = contrib.foreach(
        lambda d, s: (d * variable("w") + s[0], [s[0] + d]), variable("x"), [variable("s")]
    )
    branches = contrib.cond(a.sum() > b.sum(), lambda: a * 2 + b, lambda: a - b)
    (turns,), last = contrib.while_loop(
        lambda i, t: i < 4,
        lambda i, t: ([i * t], [i + 1, t * variable("k")]),
        [variable("i"), variable("t")],
        max_iterations=7,
    )

    (errors,), root = contrib.while_loop(
        lambda r: (r * r - a).abs().sum() > 1e-3,
        lambda r: ((r * r - a).sum(axis=1), [(r + mx.sym.broadcast_div(a, r)) / 2]),
        [variable("r")],
        max_iterations=100,
    )

    def within(d, s):
        rows, (left,) = contrib.foreach(lambda e, u: (e + u[0], [u[0] * 2]), d, [s[0]])
        return rows.sum(), [left]

    outer, (left,) = contrib.foreach(within, variable("x"), [variable("s")])
    group = mx.sym.Group
    cases = {
        "foreach": (group([loop, state]), {"x": [[1, 2], [3, 4], [5, 6]], "w": [2, -1], "s": [0.5, 0]}),
        "then": (branches, {"a": [3, 4], "b": [1, 2]}),
        "else": (branches, {"a": [0, 1], "b": [1, 2]}),
        "while": (group([turns, *last]), {"i": [1], "t": [1.5], "k": [2]}),
        "newton": (group([errors, *root]), {"a": [[2, 9], [16, 0.5]], "r": [[1, 1], [1, 1]]}),
        "nested": (group([outer, left]), {"x": [[1, 2], [3, 4]], "s": [1]}),
    }
    records = {}
    for name, (symbol, given) in cases.items():
        arrays = {k: np.array(v, np.float32) for k, v in given.items()}
        outputs = [o.tolist() for o in run(symbol.tojson(), arrays, {})]
        turns = {"while": 3, "newton": 5}.get(name)
        if turns is not None:  # the other rows are what memory held
            outputs[0][turns:] = np.zeros_like(outputs[0][turns:]).tolist()
        records[name] = {"symbol": json.loads(symbol.tojson()), "given": given, "outputs": outputs}
    (CORPUS / "control_flow.json").write_text(json.dumps(records, indent=1) + "\n")


def record_files():
    """Make a residual net with a shortcut, export it, and save its parameters under structural names."""
    nn = mx.gluon.nn

    class Block(mx.gluon.HybridBlock):
        def __init__(self, channels, prefix):
            super().__init__(prefix=prefix)
            with self.name_scope():
                self.body = nn.HybridSequential(prefix="")
                for _ in range(2):
                    self.body.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm())
                self.shortcut = nn.HybridSequential(prefix="")
                self.shortcut.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm())

        def hybrid_forward(self, F, x):
            residual = self.shortcut(x)
            return F.relu(residual + self.body(x))

    folder = CORPUS / "files"
    folder.mkdir(exist_ok=True)
    mx.random.seed(7)
    data = mx.nd.random.normal(shape=(2, 3, 4))
    for name, kind in {"unrolled_lstm": mx.rnn.LSTMCell, "unrolled_gru": mx.rnn.GRUCell}.items():
        cell = kind(5, prefix="cell_")
        symbol, _ = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
        shapes, _, _ = symbol.infer_shape(data=data.shape)
        held = {n: mx.nd.random.normal(shape=s) for n, s in zip(symbol.list_arguments(), shapes)}  # noqa: B905
        held["data"] = data
        outputs = symbol.bind(mx.cpu(), held).forward()[0]
        del held["data"]
        symbol.save(str(folder / (name + "-symbol.json")))
        mx.nd.save(str(folder / (name + "-0000.params")), {"arg:" + n: v for n, v in held.items()})
        write_arrays(folder / (name + ".npz"), {"x": data.asnumpy(), "y": outputs.asnumpy()})
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(Block(3, "stage1_"), Block(3, "stage2_"), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.random.normal(shape=(2, 3, 4, 4))
    net(x)
    for parameter in net.collect_params().values():
        if not parameter.name.endswith("weight"):
            parameter.set_data(mx.nd.random.uniform(0.5, 1.5, shape=parameter.shape))
    outputs = net(x)
    net.export(str(folder / "structural"))
    net.save_parameters(str(folder / "structural.save_parameters"))
    write_arrays(folder / "structural.npz", {"x": x.asnumpy(), "y": outputs.asnumpy()})


def record_steps():
    """Bind the siamese symbols that regraft wrote, one data name a branch, and train them for a step."""
    path = CORPUS / "steps.json"
    records = read_json(path, {})
    for record in records.values():
        symbol = mx.sym.load_json(json.dumps(record["symbol"]))
        given = [mx.nd.array(value) for value in record["given"].values()]
        module = mx.mod.Module(symbol, data_names=list(record["given"]), label_names=None)
        module.bind([(n, v.shape) for n, v in zip(record["given"], given)])  # noqa: B905
        module.set_params({n: mx.nd.array(v) for n, v in record["before"].items()}, {})
        module.init_optimizer(optimizer_params={"learning_rate": record["rate"], "rescale_grad": 1.0})
        module.forward(mx.io.DataBatch(given), is_train=True)
        record["outputs"] = [o.asnumpy().tolist() for o in module.get_outputs()]
        module.backward([mx.nd.ones(o.shape) for o in module.get_outputs()])
        module.update()
        record["after"] = {n: v.asnumpy().tolist() for n, v in module.get_params()[0].items()}
    path.write_text(json.dumps(records) + "\n")


def symbol_of(operator, attributes, names, outputs=1):
    """One operator on variables, as MXNet writes a symbol."""
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    node = {"op": operator, "name": "row", "inputs": [[number, 0, 0] for number in range(len(names))]}
    if attributes:
        node["attrs"] = attributes
    return {
        "nodes": [*nodes, node],
        "arg_nodes": list(range(len(names))),
        "node_row_ptr": [*range(len(names) + 1), len(names) + outputs],
        "heads": [[len(names), number, 0] for number in range(outputs)],
        "attrs": {"mxnet_version": ["int", 10901]},
    }


def run(text, inputs, parameters):
    """The outputs of a symbol in inference, as arrays."""
    symbol = mx.sym.load_json(text)
    known = {name: mx.nd.array(array, dtype=array.dtype) for name, array in {**inputs, **parameters}.items()}
    names = symbol.list_arguments()
    shapes, _, _ = symbol.infer_shape_partial(**{n: a.shape for n, a in known.items() if n in names})
    for name, shape in zip(names, shapes):  # noqa: B905 - a label, which no loss head reads in inference
        if name not in known:
            known[name] = mx.nd.zeros(shape)
    states = {name: known[name] for name in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), {n: known[n] for n in names}, grad_req="null", aux_states=states)
    return [found.asnumpy() for found in executor.forward(is_train=False)]


def read_json(path, otherwise):
    return json.loads(path.read_text()) if path.exists() else otherwise


def read_arrays(path):
    if not path.exists():
        return {}
    with np.load(str(path)) as file:
        return dict(file)


def write_arrays(path, arrays):
    np.savez_compressed(str(path), **arrays)


if __name__ == "__main__":
    main()
