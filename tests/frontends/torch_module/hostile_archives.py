"""Hostile saved programs: each asks some reader to run a payload that leaves a mark on disk."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

Members = dict[str, bytes]
Document = dict


class Payload:
    """What unpickles to the mark."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self._mark),)


class Net(torch.nn.Module):
    """A parameter, a buffer, a constant, and a size that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))
        self.constant = torch.ones(4)

    def forward(self, x):
        return self.linear(x) + self.shift + self.constant, x.shape[0] * 2


def ordinary() -> Members:
    """The records of an ordinary archive, without the folder they share."""
    auto = torch.export.Dim.AUTO
    program = torch.export.export(Net(), (torch.ones(6, 4),), dynamic_shapes=({0: auto},), strict=False)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def write(path: Path, members: Members, method: int = zipfile.ZIP_STORED) -> Path:
    """An archive of these records."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"net/{name}", content)
    return path


_PROGRAM = "models/model.json"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"
_SAMPLES = "data/sample_inputs/model.pt"


def hostile(members: Members, mark: Path) -> dict[str, Members]:
    """Name of a vector -> the records of its archive."""
    payload = Payload(mark)
    code = f"__import__('os').mkdir({str(mark)!r})"
    bare = pickle.dumps(payload, protocol=2)
    saved = io.BytesIO()
    torch.save(((payload,), {}), saved)

    def edited(name: str, change: Callable[[Document], Document | None], **more: bytes) -> Members:
        document = json.loads(members[name])
        document = change(document) or document
        return {**members, name: json.dumps(document).encode(), **more}

    def program(change: Callable[[Document], Document | None]) -> Members:
        return edited(_PROGRAM, change)

    def expression(text: str) -> Members:
        return program(
            lambda d: json.loads(
                re.sub(r'"expr_str": "[^"]*"', lambda _: f'"expr_str": {json.dumps(text)}', json.dumps(d))
            )
        )

    def renamed(old: str, new: str, *names: str) -> Members:
        found = dict(members)
        for name in names or (_PROGRAM,):
            found[name] = members[name].replace(json.dumps(old).encode(), json.dumps(new).encode())
        return found

    def payload_of(name: str, config: str, entry: str, path: str, **fields: object) -> Members:
        def change(document: Document) -> None:
            document["config"][entry].update(path_name=path, **fields)

        folder = config.rpartition("/")[0]
        return edited(config, change, **{f"{folder}/{path}": bare})

    def called(target: str, *arguments: Document) -> Members:
        def change(document: Document) -> None:
            graph = document["graph_module"]["graph"]
            inputs = [{"name": f"a{i}", "arg": a, "kind": 1} for i, a in enumerate(arguments)]
            node = {"target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": "extra"}}]}
            graph["nodes"].insert(0, {**node, "metadata": {}, "name": "extra"})
            graph["tensor_values"]["extra"] = next(iter(graph["tensor_values"].values()))

        return program(change)

    def nested(which: str, change: Callable[[Document], None]) -> Members:
        def edit(document: Document) -> None:
            signature = document["graph_module"]["module_call_graph"][0]["signature"]
            version, tree = json.loads(signature[which])
            change(tree)
            signature[which] = json.dumps([version, tree])

        return program(edit)

    def keywords(key: object) -> Callable[[Document], None]:
        def change(tree: Document) -> None:
            positional, named = tree["children_spec"]
            named.update(context=json.dumps([key]), children_spec=positional["children_spec"])
            positional["children_spec"] = []

        return change

    def field(name: str, value: object) -> Callable[[Document], None]:
        return lambda document: document.update({name: value})

    def signature(name: str, value: object) -> Members:
        return program(lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update({name: value}))

    text = {"as_string": str(mark)}
    module = f"{mark.parent.name}_planted"
    (mark.parent / f"{module}.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    enum = {"__enum__": True, "fqn": f"{module}:Kind", "name": "A"}
    factory = {"default_factory_module": module, "default_factory_name": "x", "dict_context": []}
    unsafe = f'linear.weight"), {code}, getattr(self, "x'
    return {
        "example inputs that call": {**members, _SAMPLES: saved.getvalue()},
        "example inputs of a bare pickle": {**members, _SAMPLES: bare},
        "a weight that says it is pickled": payload_of(
            "w", _WEIGHTS, "linear.weight", "weight_0", use_pickle=True
        ),
        "an opaque constant": payload_of(
            "c", _CONSTANTS, "constant", "opaque_obj_0", use_pickle=True, tensor_meta=None
        ),
        "an opaque constant that says it is raw": payload_of("c", _CONSTANTS, "constant", "opaque_obj_0"),
        "a custom object": payload_of("c", _CONSTANTS, "constant", "custom_obj_0"),
        "weights in a pickle": {**members, "data/weights/model.pt": saved.getvalue()},
        "weights in a bare pickle": {**members, "data/weights/model.pt": bare},
        "constants in a pickle": {**members, "data/constants/model.pt": saved.getvalue()},
        "a shared object": {**members, "data/aotinductor/model/net.so": b"\x7fELF"},
        "TorchScript": {**members, "code/__torch__/net.py": b""},
        "a size that is evaluated": expression(code),
        "a size with a call inside": expression(f"s0 + ({code} or 1)"),
        "a size by way of classes": expression("().__class__.__bases__[0].__subclasses__()"),
        "a size that takes for ever": expression("9**9**9**9"),
        "a range of a name that is evaluated": program(
            lambda d: d["range_constraints"].update({code: {"min_val": 0, "max_val": 9}})
        ),
        "a symbol that is counted up to": program(
            lambda d: d["range_constraints"].update({"u9999999999": {"min_val": 0, "max_val": 9}})
        ),
        "a node's name that is source": renamed("linear", f"linear = {code}; x"),
        "an input's name that is source": renamed("x", f"x={code}"),
        "a weight's name that is source": renamed("linear.weight", unsafe, _PROGRAM, _WEIGHTS),
        "an argument's name that is source": signature("forward_arg_names", [f"x={code}"]),
        "a keyword that is source": nested("in_spec", keywords(f"x':{code},'y")),
        "a keyword of a class": nested("in_spec", keywords(enum)),
        "an output of a class": nested("out_spec", field("context", json.dumps([enum]))),
        "an output with a factory": nested(
            "out_spec", lambda t: t.update(type="collections.defaultdict", context=factory, children_spec=[])
        ),
        "a function of the system": called("torch.os.mkdir", text),
        "a function of a library's module": called("torch.serialization.os.mkdir", text),
        "a loader of libraries": called("torch.ops.load_library", text),
        "a loader of pickles": called("torch.load", text),
        "an operator that makes a file": called(
            "torch.ops.aten.from_file.default", text, {"as_bool": True}, {"as_int": 4}
        ),
        "an operator of TorchScript that writes": called("torch.ops.aten.save.default", text, text),
        "a method by its name": called("_operator.methodcaller", text),
        "a function as an argument": called(
            "torch.ops.higher_order.wrap", {"as_operator": "torch.os.mkdir"}, text
        ),
        "an object's method": called("torch.ops.higher_order.call_torchbind", text),
        "an object in the graph": program(
            lambda d: d["graph_module"]["graph"].update(
                custom_obj_values={"o": {"name": "o", "class_fqn": "__torch__.X"}}
            )
        ),
        "an empty weight of 4 TB": {
            **edited(
                _WEIGHTS,
                lambda d: d["config"]["linear.weight"]["tensor_meta"].update(
                    sizes=[{"as_int": 10**6}, {"as_int": 10**6}]
                ),
            ),
            "data/weights/weight_0": b"",
        },
        "a weight that repeats itself": edited(
            _WEIGHTS,
            lambda d: d["config"]["linear.weight"]["tensor_meta"].update(
                sizes=[{"as_int": 10**6}] * 2, strides=[{"as_int": 0}] * 2
            ),
        ),
        "JSON that nests": {**members, _PROGRAM: b"[" * 100_000},
        "JSON of too many values": {**members, _PROGRAM: b"[" + b"[]," * 4_000_000 + b"[]]"},
        "a record outside": {**members, "../../planted": b""},
    }


def quiet(members: Members, mark: Path) -> dict[str, Members]:
    """Vectors of which nothing is left once the file is read as data: these open."""
    code = f"__import__('os').mkdir({str(mark)!r})"

    def edited(change: Callable[[Document], None]) -> Members:
        document = copy.deepcopy(json.loads(members[_PROGRAM]))
        change(document)
        return {**members, _PROGRAM: json.dumps(document).encode()}

    def metadata(key: str, value: str) -> Members:
        return edited(
            lambda d: [n["metadata"].update({key: value}) for n in d["graph_module"]["graph"]["nodes"]]
        )

    return {
        "guards": edited(lambda d: d.update(guards_code=[f"{code} or True"])),
        "functions in the metadata": metadata("source_fn_stack", "x,torch.hub.load"),
        "source lines": metadata("stack_trace", f'File "x", line 1, in f\n  {code}\n{code}'),
        "verifiers": edited(lambda d: d.update(verifiers=["os.mkdir"])),
    }
