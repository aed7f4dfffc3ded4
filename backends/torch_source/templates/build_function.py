"""Writes the end of model.py: `build` makes the net, `load` loads a checkpoint strictly."""

from __future__ import annotations

from collections.abc import Iterable

from ....formats.shard_index import INDEX
from ...source.dialect import Net
from ...source.expressions import literal_source

COUNTER = "num_batches_tracked"
"""The buffer of a BatchNorm layer that counts its batches, which no other framework has."""


def build_function(net: Net) -> str:
    """Return the text of ``build`` and ``load``, with the constants that they read."""
    if not net.holds:
        return _WITHOUT_PARAMETERS.format(net=net.name)
    frozen = [name for name in net.frozen if name.rpartition(".")[2] != COUNTER]
    text = f"CHECKPOINT = Path(__file__).with_name({literal_source(net.checkpoint)})\n"
    if net.constants:
        text += f"CONSTANTS = Path(__file__).with_name({literal_source(net.constants)})\n"
    if frozen:
        text += f"FROZEN = {{{', '.join(literal_source(n) for n in frozen)}}}\n"
    held: list[str] = []
    if net.draws and net.buffers:
        held.append("BUFFERS")
        text += f"BUFFERS = [{_each_name(net, net.buffers)}]\n"
    if net.draws and net.undrawn:  # never another law than the source's: that would pass for it
        held.append("UNDRAWN")
        text += "# parameters without a known initial distribution: their values come from the checkpoint\n"
        text += f"UNDRAWN = [{_each_name(net, net.undrawn)}]\n"
    sharded = net.checkpoint == INDEX
    build = _BUILD if net.draws else _BUILD_WITHOUT_DRAWING
    text += build.format(
        net=net.name,
        constants=_CONSTANTS if net.constants else "",
        freezing=_FREEZING if frozen else "",
        tables=_TABLES.format(names=" + ".join(held)) if held else "",
    )
    return text + (_LOAD_SHARDS if sharded else _LOAD_TIED if net.ties else _LOAD)


def _each_name(net: Net, names: Iterable[str]) -> str:
    """Return as source names of tensors, and the further names of those that have several."""
    first = set(names)
    found = sorted(first | {name for name, held in net.ties.items() if held in first})
    return ", ".join(map(literal_source, found))


_WITHOUT_PARAMETERS = '''
def build(checkpoint=None, device=None, dtype=None):
    """Return the net in evaluation mode; it has no parameters and ignores a checkpoint."""
    return {net}().to(device=device, dtype=dtype).eval()
'''

_BUILD = '''

def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights; None initialises new ones."""
    net = {net}(){constants}{freezing}
    if checkpoint is not None:
        load(net, checkpoint){tables}
    return net.to(device=device, dtype=dtype).eval()
'''

_CONSTANTS = """
    for name, values in load_file(CONSTANTS).items():
        net.get_buffer(name).copy_(values)"""

_BUILD_WITHOUT_DRAWING = '''

def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights.

    None takes the file's own too: no parameter has a known initial distribution.
    """
    net = {net}(){constants}{freezing}
    load(net, CHECKPOINT if checkpoint is None else checkpoint)
    return net.to(device=device, dtype=dtype).eval()
'''

_FREEZING = """
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name not in FROZEN)"""

_TABLES = """
    else:  # values that no initializer makes
        drawn = {{n: v.clone() for n, v in net.state_dict().items() if n not in {names}}}
        load(net, CHECKPOINT)
        net.load_state_dict(drawn, strict=False)"""

_LOAD = '''

def load(net, checkpoint):
    """Load a .safetensors or .pth file; raise an error unless it fits the net."""
    path = Path(checkpoint)
    if path.suffix == ".safetensors":
        load_model(net, path)
    else:
        net.load_state_dict(torch.load(path, weights_only=True))
'''

# safetensors' load_model refuses a file that lacks a further name of a counter of batches: torch fills it in
_LOAD_TIED = '''

def load(net, checkpoint):
    """Load a .safetensors or .pth file; raise an error unless it fits the net."""
    path = Path(checkpoint)
    if path.suffix == ".safetensors":
        values = load_file(path)
    else:
        values = torch.load(path, weights_only=True)
    # a tensor of several names may be there under some of them
    tensors = net.state_dict(keep_vars=True)
    held = {id(t): values[n] for n, t in tensors.items() if n in values}
    shared = {n: held[id(t)] for n, t in tensors.items() if id(t) in held}
    net.load_state_dict(shared | values)
'''

_LOAD_SHARDS = '''

def load(net, checkpoint):
    """Load a .safetensors file, or the shards of an index; raise ValueError unless they fit the net."""
    path, files = Path(checkpoint), [Path(checkpoint)]
    if path.suffix == ".json":
        index = json.loads(path.read_text(encoding="utf-8"))
        files = [path.with_name(name) for name in sorted(set(index["weight_map"].values()))]
    missing, unexpected = set(net.state_dict()), []
    for file in files:
        absent, unknown = load_model(net, file, strict=False)
        missing &= set(absent)
        unexpected += set(unknown) - net.state_dict().keys()
    if missing or unexpected:
        raise ValueError(f"{checkpoint} does not fit the net: lacks {sorted(missing)}, holds {unexpected}")
'''
