"""Writes the end of model.py: `build` makes the net and names it, `load` loads a checkpoint strictly."""

from __future__ import annotations

from ....formats.shard_index import INDEX
from ...source.dialect import Net
from ...source.expressions import literal_source


def build_function(net: Net) -> str:
    """Return the text of ``build`` and ``load``, with the constants that they read."""
    if not net.holds:
        return _WITHOUT_PARAMETERS.format(net=net.name)
    text = f"CHECKPOINT = Path(__file__).with_name({literal_source(net.checkpoint)})\n"
    if net.frozen:
        text += f"FROZEN = {{{', '.join(literal_source(n) for n in net.frozen)}}}\n"
    if net.buffers:
        text += f"BUFFERS = [{', '.join(literal_source(n) for n in net.buffers)}]\n"
    if net.undrawn:  # never another law than the source's: that would pass for it
        names = ", ".join(literal_source(n) for n in net.undrawn)
        text += "# parameters without a known initial distribution: their values come from the checkpoint\n"
        text += f"UNDRAWN = [{names}]\n"
    held = [name for name, some in (("BUFFERS", net.buffers), ("UNDRAWN", net.undrawn)) if some]
    sharded = net.checkpoint == INDEX
    return text + (_BUILD + (_LOAD_SHARDS if sharded else _LOAD)).format(
        net=net.name,
        freezing=_FREEZING if net.frozen else "",
        tables=_TABLES.format(names=" + ".join(held)) if held else "",
        only=", only=None" if held else "",
        scope=", or `only` some names" if held else "",
        assigned=_ASSIGN_NAMED if held else _ASSIGN_ALL,
        assigned_shard=_ASSIGN_SHARD_NAMED if held else _ASSIGN_SHARD,
    )


_WITHOUT_PARAMETERS = '''
def build(checkpoint=None):
    """Return the net in inference mode; it has no parameters and ignores a checkpoint."""
    return {net}().set_train(False)
'''

_BUILD = '''

def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = {net}()
    for path, parameter in net.parameters_and_names():
        parameter.name = path{freezing}
    if checkpoint is not None:
        load(net, checkpoint){tables}
    return net.set_train(False)
'''

_LOAD = '''

def load(net, checkpoint{only}):
    """Load a .ckpt or .safetensors file{scope}; raise ValueError unless it fits the net."""
    path = Path(checkpoint)
    values = ms.load_checkpoint(str(path), format=path.suffix[1:])
    wanted = {{f"{{n}} {{p.dtype}}{{p.shape}}" for n, p in net.parameters_dict().items()}}
    found = {{f"{{n}} {{v.dtype}}{{v.shape}}" for n, v in values.items()}}
    problems = [f"only in the net: {{each}}" for each in sorted(wanted - found)]
    problems += [f"only in the checkpoint: {{each}}" for each in sorted(found - wanted)]
    if problems:
        raise ValueError(f"{{path}} does not fit the net:\\n" + "\\n".join(problems))
{assigned}
'''

_ASSIGN_ALL = "    ms.load_param_into_net(net, values, strict_load=True)"

# by exact names: without `strict_load`, `ms.load_param_into_net` guesses a prefix for what it does not find
_ASSIGN_NAMED = """    for name, parameter in net.parameters_dict().items():
        if only is None or name in only:
            parameter.set_data(values[name])"""

_LOAD_SHARDS = '''

def load(net, checkpoint{only}):
    """Load a file or the shards of an index{scope}; raise ValueError unless they fit the net."""
    parameters = net.parameters_dict()
    wanted = {{n: f"{{n}} {{p.dtype}}{{p.shape}}" for n, p in parameters.items()}}
    problems = []
    for name, value in read(checkpoint):
        found = f"{{name}} {{value.dtype}}{{value.shape}}"
        if wanted.get(name) != found:
            problems.append(f"only in the checkpoint: {{found}}")
            continue
        del wanted[name]
{assigned_shard}
    problems += [f"only in the net: {{each}}" for each in wanted.values()]
    if problems:
        raise ValueError(f"{{checkpoint}} does not fit the net:\\n" + "\\n".join(sorted(problems)))


def read(checkpoint):
    """Yield each tensor's name and values from a file, or from an index's shards one by one."""
    path, files = Path(checkpoint), [Path(checkpoint)]
    if path.suffix == ".json":
        index = json.loads(path.read_text(encoding="utf-8"))
        files = [path.with_name(name) for name in sorted(set(index["weight_map"].values()))]
    for file in files:
        yield from ms.load_checkpoint(str(file), format=file.suffix[1:]).items()
'''

_ASSIGN_SHARD = "        parameters[name].set_data(value)"
_ASSIGN_SHARD_NAMED = """        if only is None or name in only:
            parameters[name].set_data(value)"""

_FREEZING = "\n        parameter.requires_grad = parameter.requires_grad and path not in FROZEN"

_TABLES = """
    else:  # values that no initializer makes
        load(net, CHECKPOINT, {names})"""
