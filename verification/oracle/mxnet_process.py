"""Runs a symbol in MXNet, on request, in a process of its own: a script for Python 3.6 and later with MXNet.

It is started as ``python -I -B mxnet_process.py`` in a Python that has MXNet and need not have regraft. It
reads requests and writes answers as lines of JSON; arrays are .npy files without pickles. MXNet's own
messages go to standard error.
"""

# no `from __future__ import annotations`: MXNet's last release runs up to Python 3.8, and 3.6 does too
import json
import os
import sys
from pathlib import Path


def main():
    """Answer requests until there are none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    model = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if model is None:
                model = Model(request)
                answer = model.describe()
            else:
                answer = model.run(request)
        except Exception as error:  # MXNet's own errors have no common base; the caller says what it means
            answer = {"error": f"{type(error).__name__}: {str(error).strip()}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Model:
    """A symbol with its parameters, both read by MXNet."""

    def __init__(self, request):
        import mxnet  # type: ignore[import-not-found] - of another Python

        self.mx = mxnet
        self.symbol = mxnet.sym.load(request["symbol"])
        self.arguments, self.auxiliary = {}, {}
        stored = mxnet.nd.load(request["params"]) if request["params"] else {}
        if not isinstance(stored, dict):
            if stored:
                raise ValueError("expected parameters with names")
            stored = {}
        auxiliary = set(self.symbol.list_auxiliary_states())
        for name, array in stored.items():
            kind, _, bare = name.rpartition(":")
            held = self.auxiliary if kind == "aux" or (not kind and bare in auxiliary) else self.arguments
            held[bare] = array
        self.internals = self.symbol.get_internals()
        document = json.loads(self.internals.tojson())
        nodes = document["nodes"]
        self.places = {}
        for number, head in enumerate(document["heads"]):
            key = (nodes[head[0]]["name"], head[1])
            if nodes[head[0]]["op"] != "null":
                self.places.setdefault(key, number)
        self.operators = {node["name"]: node["op"] for node in nodes}

    def describe(self):
        """Return the version of MXNet, and the names of what can be shown."""
        return {
            "version": self.mx.__version__,
            "values": [[name, output, self.operators[name]] for name, output in self.places],
        }

    def run(self, request):
        """Run it on inputs, and save its outputs and the values asked for."""
        import numpy

        mx = self.mx
        inputs = {n: numpy.load(file, allow_pickle=False) for n, file in request["inputs"].items()}
        wanted = [self.internals[self.places[(n, output)]] for n, output in request["values"]]
        symbol = mx.sym.Group([*wanted, self.symbol]) if wanted else self.symbol
        given = {n: mx.nd.array(a, dtype=a.dtype) for n, a in inputs.items()}
        filled = {n: numpy.load(file, allow_pickle=False) for n, file in request["filled"].items()}
        known = dict(self.arguments, **given)
        states = dict(self.auxiliary)
        for name, array in filled.items():
            held = states if name in states else known
            held[name] = mx.nd.array(array, dtype=array.dtype)
        names = symbol.list_arguments()
        known = {n: a for n, a in known.items() if n in names}
        shapes, _, _ = symbol.infer_shape_partial(**{n: a.shape for n, a in known.items()})
        for name, shape in zip(names, shapes):  # noqa: B905 - Python 3.8 has no `strict`
            if name not in known:  # a label, which no loss head reads in inference
                if not shape or 0 in shape:
                    raise ValueError(f"expected values of `{name}`, got none")
                known[name] = mx.nd.zeros(shape)
        executor = symbol.bind(
            mx.cpu(),
            known,
            grad_req="null",
            aux_states={n: states[n] for n in symbol.list_auxiliary_states()},
        )
        results = executor.forward(is_train=False)
        for number, result in enumerate(results):
            numpy.save(str(Path(request["folder"]) / f"{number}.npy"), result.asnumpy())
        return {"count": len(results)}


if __name__ == "__main__":
    main()
