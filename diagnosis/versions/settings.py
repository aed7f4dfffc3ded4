"""Writes a call of `set_context` as the functions that replace its arguments."""

from __future__ import annotations

import ast

from .names import Names

_FUNCTIONS = {
    "max_call_depth": "set_recursion_limit({})",
    "inter_op_parallel_num": "runtime.dispatch_threads_num({})",
    "runtime_num_threads": "device_context.cpu.op_tuning.threads_num({})",
    "op_timeout": "device_context.ascend.op_debug.execute_timeout({})",
    "aoe_tune_mode": "device_context.ascend.op_tuning.aoe_tune_mode({})",
}
"""Argument -> the function of the package that takes its value."""
_MEMORY = {
    "max_device_memory": "max_size",
    "mempool_block_size": "increase_size",
    "memory_optimize_level": "optimize_level",
}
"""Argument -> that of `runtime.set_memory`."""


def split_settings(call: ast.Call, names: Names, moved: set[str], removed: set[str]) -> list[str] | None:
    """Return expressions that set the same, the last in the place of the call; None where one is missing.

    Args:
        call: the call of `set_context`.
        names: those of the file.
        moved: the arguments that functions replace.
        removed: the arguments that raise an error.
    """
    if call.args or any(k.arg is None for k in call.keywords):
        return None
    package = names.root or "mindspore"
    given = {k.arg or "": k.value for k in call.keywords}
    lines: list[str] = []
    kept: list[str] = []
    memory: list[str] = []
    for name, value in given.items():
        text = names.text(value)
        constant = value.value if isinstance(value, ast.Constant) else None
        if name == "device_target":
            number = given.get("device_id")
            lines.append(f"set_device({text}{'' if number is None else f', {names.text(number)}'})")
        elif name == "device_id" and "device_target" in given:
            continue
        elif name == "deterministic" and constant in ("ON", "OFF"):
            lines.append(f"set_deterministic({constant == 'ON'})")
        elif name == "pynative_synchronize" and constant is True:
            lines.append("runtime.launch_blocking()")
        elif (name in removed or name == "pynative_synchronize") and constant is False:
            continue  # as it is without the argument
        elif name in _FUNCTIONS:
            lines.append(_FUNCTIONS[name].format(text))
        elif name in _MEMORY:
            memory.append(f"{_MEMORY[name]}={text}")
        elif name in moved or name in removed:
            return None
        else:
            kept.append(f"{name}={text}")
    if memory:
        lines.append(f"runtime.set_memory({', '.join(memory)})")
    calls = [f"{package}.{line}" for line in lines]
    if kept:
        calls.append(f"{names.text(call.func)}({', '.join(kept)})")
    return calls or None
