"""The table of what releases of MindSpore remove, change and mark: one row a fact, with what to write.

Each row holds in the releases from `since` on. Rows of removals and changes were run in the releases 2.8.0,
2.9.0 and 2.10.0; the tests run them again in the installed one, and compare the values of renamed calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from .marked import marked_names

VERSIONS = ("2.9", "2.10", "2.11")
"""The releases that facts are stated for."""

SOURCES: dict[str, str] = {
    "notes-2.9": "https://www.mindspore.cn/docs/en/r2.9.0/RELEASE.html",
    "notes-2.11": "https://www.mindspore.cn/docs/zh-CN/r2.11.0/RELEASE.html",
    "set_context": "https://www.mindspore.cn/docs/en/r2.11.0/api_python/mindspore/mindspore.set_context.html",
    "run": "run in the releases 2.8.0, 2.9.0 and 2.10.0",
    "docstring": "the docstrings of the releases 2.8.0, 2.9.0 and 2.10.0",
}
"""Key -> where a fact is from."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A use that a release removes, changes or marks for removal.

    Attributes:
        name: the function or class, in full.
        code: the finding's code.
        since: the first release that it holds in.
        write: what to write instead; empty where nothing is known.
        source: a key of `SOURCES`.
        argument: the argument that the fact is about; empty for the call itself.
        rename: the same function's other name in the same module; empty where it takes other operands.
    """

    name: str
    code: str
    since: str
    write: str = ""
    source: str = "docstring"
    argument: str = ""
    rename: str = ""


def _first_operand(module: str, pairs: str) -> tuple[Fact, ...]:
    rows = [pair.split("=") for pair in pairs.split()]
    return tuple(
        Fact(
            f"mindspore.{module}.{name}",
            "MV102",
            "2.9",
            f"{module}.{turned}(x, number)",
            "notes-2.9",
            rename=turned,
        )
        for name, turned in rows
    )


NUMBER_FIRST: tuple[Fact, ...] = (
    *_first_operand("ops", "equal=equal eq=eq less=greater lt=gt Equal=Equal Less=Greater"),
    *_first_operand("mint", "eq=eq less=greater lt=gt"),
)
"""Comparisons that take no number as their first operand; `rename` is the one with exchanged operands."""

REMOVED_ARGUMENTS: tuple[Fact, ...] = (
    Fact(
        "mindspore.set_context",
        "MV101",
        "2.6",
        "device_context.ascend.op_debug.aclinit_config",
        "run",
        "exception_dump",
    ),
    Fact(
        "mindspore.set_context",
        "MV101",
        "2.10",
        "the environment variable MS_DEV_PRECOMPILE_ONLY",
        "run",
        "precompile_only",
    ),
    Fact(
        "mindspore.set_context",
        "MV101",
        "2.10",
        "a Tensor in place of the number, whose gradient is taken",
        "run",
        "grad_for_scalar",
    ),
)
"""Arguments that raise an error."""

BY_NAME_ALONE: dict[str, Fact] = {
    method: Fact(f"mindspore.nn.Cell.{method}", "MV101", "2.9", "with_kwargs=…", "run", "with_kwargs")
    for method in ("register_forward_hook", "register_forward_pre_hook")
}
"""Method of a Cell -> its argument that may no longer be given by place."""


def _moved(argument: str, write: str, since: str = "2.8") -> Fact:
    return Fact("mindspore.set_context", "MV103", since, write, "set_context", argument)


MOVED_ARGUMENTS: tuple[Fact, ...] = (
    _moved("device_target", "mindspore.set_device(target)"),
    _moved("device_id", "mindspore.set_device(target, id)"),
    _moved("deterministic", "mindspore.set_deterministic(True)"),
    _moved("max_call_depth", "mindspore.set_recursion_limit(depth)"),
    _moved("pynative_synchronize", "mindspore.runtime.launch_blocking()"),
    _moved("inter_op_parallel_num", "mindspore.runtime.dispatch_threads_num(count)"),
    _moved("runtime_num_threads", "mindspore.device_context.cpu.op_tuning.threads_num(count)"),
    _moved("max_device_memory", "mindspore.runtime.set_memory(max_size=size)"),
    _moved("variable_memory_max_size", "mindspore.runtime.set_memory(max_size=size)"),
    _moved("mempool_block_size", "mindspore.runtime.set_memory(increase_size=size)"),
    _moved("memory_optimize_level", "mindspore.runtime.set_memory(optimize_level=level)"),
    _moved("op_timeout", "mindspore.device_context.ascend.op_debug.execute_timeout(seconds)"),
    _moved("aoe_tune_mode", "mindspore.device_context.ascend.op_tuning.aoe_tune_mode(mode)"),
    _moved("ascend_config", "functions of mindspore.device_context.ascend"),
    _moved("gpu_config", "functions of mindspore.device_context.gpu"),
    _moved("jit_config", "arguments of mindspore.jit"),
    _moved("jit_syntax_level", "mindspore.jit(fullgraph=True), or fullgraph=False for LAX"),
    _moved("exec_order", "arguments of mindspore.jit"),
    _moved("disable_format_transform", "arguments of mindspore.jit"),
    _moved("enable_graph_kernel", 'mindspore.jit(jit_level="O1")'),
    _moved("graph_kernel_flags", "the environment variable MS_DEV_GRAPH_KERNEL_FLAGS"),
    _moved("save_graphs", "the environment variable MS_DEV_SAVE_GRAPHS"),
    _moved("save_graphs_path", "the environment variable MS_DEV_SAVE_GRAPHS_PATH"),
    _moved("enable_compile_cache", "the environment variable MS_COMPILER_CACHE_ENABLE"),
    _moved("compile_cache_path", "the environment variable MS_COMPILER_CACHE_PATH"),
    _moved("support_binary", "the environment variable MS_SUPPORT_BINARY"),
    _moved("precompile_only", "the environment variable MS_DEV_PRECOMPILE_ONLY"),
    *(
        _moved(each, "nothing: it has no effect that is kept")
        for each in (
            "check_bprop",
            "debug_level",
            "enable_reduce_precision",
            "env_config_path",
            "print_file_path",
            "reserve_class_name_in_scope",
            "enable_sparse",
            "auto_tune_mode",
            "enable_auto_mixed_precision",
        )
    ),
)
"""Arguments of `set_context` that functions of their own replace."""


def _marked(name: str, write: str, since: str = "2.8", rename: str = "") -> Fact:
    return Fact(f"mindspore.{name}", "MV104", since, write, rename=rename)


REPLACED: tuple[Fact, ...] = (
    _marked("ops.floor_div", "ops.floor_divide(x, y)", "2.9", "floor_divide"),
    _marked("ops.soft_shrink", "ops.softshrink(x)", rename="softshrink"),
    _marked("ops.top_k", "ops.topk(x, k)", rename="topk"),
    _marked("ops.matrix_determinant", "ops.det(x)", rename="det"),
    _marked("ops.log_matrix_determinant", "ops.slogdet(x)", rename="slogdet"),
    _marked("ops.reverse", "ops.flip(x, axes)", rename="flip"),
    _marked("ops.expand_dims", "ops.unsqueeze(x, axis)", "2.9", "unsqueeze"),
    _marked("ops.unstack", "ops.unbind(x, axis)", "2.9"),
    _marked("ops.expand", "ops.broadcast_to(x, shape)"),
    _marked("ops.fill", "ops.full(shape, value, dtype=type)", "2.9"),
    _marked("ops.fills", "ops.full_like(x, value)"),
    _marked("ops.cast", "x.to(dtype)", "2.9"),
    _marked("ops.masked_fill", "x.masked_fill(mask, value)", "2.9"),
    _marked("ops.clip_by_value", "ops.clamp(x, low, high), of one Tensor", "2.9"),
    _marked("ops.truncate_div", 'ops.div(x, y, rounding_mode="trunc")', "2.9"),
    _marked("ops.is_tensor", "isinstance(x, mindspore.Tensor)", "2.9"),
    _marked("is_tensor", "isinstance(x, mindspore.Tensor)", "2.9"),
    _marked("ops.padding", "ops.pad"),
    _marked("ops.accumulate_n", "ops.addn(tensors)"),
    _marked("ops.approximate_equal", "x.isclose(y)"),
    _marked("ops.scalar_cast", "int(x) or float(x)"),
    _marked("ops.scalar_to_array", "ops.scalar_to_tensor(x)"),
    _marked("ops.unique_with_pad", "ops.unique and ops.pad"),
    _marked("ops.Expand", "ops.broadcast_to(x, shape)"),
    _marked("ops.Fill", "ops.full(shape, value, dtype=type)"),
    _marked("ops.Fills", "ops.full_like(x, value)"),
    _marked("ops.AccumulateNV2", "ops.addn(tensors)"),
    _marked("ops.DynamicShape", "ops.shape(x)"),
    _marked("ops.Padding", "ops.pad"),
    _marked("ops.ResizeArea", 'ops.interpolate(x, size, mode="area")'),
    _marked("ops.ScalarCast", "int(x) or float(x)"),
    _marked("ops.SpaceToBatch", "ops.SpaceToBatchND"),
    _marked("ops.DepthwiseConv2dNative", "nn.Conv2d(…, group=channels)"),
    _marked("nn.MatMul", "ops.matmul(x, y)"),
    _marked("nn.Norm", "ops.norm(x, dim=axis)"),
    _marked("nn.ClipByNorm", "ops.clip_by_norm(x, norm)"),
    _marked("nn.LazyAdam", "nn.Adam(…, use_lazy=True)"),
    _marked("nn.AdamOffload", "nn.Adam(…, use_offload=True)"),
    _marked("nn.Jvp", "mindspore.ops.jvp"),
    _marked("nn.Vjp", "mindspore.ops.vjp"),
    _marked("nn.OneHot", "ops.one_hot"),
    _marked("nn.Tril", "ops.tril(x)"),
    _marked("nn.Triu", "ops.triu(x)"),
    _marked("nn.Range", "ops.range"),
    _marked("nn.Roll", "ops.roll(x, shift, axis)"),
    _marked("nn.PipelineCell", "mindspore.parallel.nn.Pipeline"),
    _marked("nn.PipelineGradReducer", "mindspore.parallel.nn.PipelineGradReducer"),
    _marked("nn.GradAccumulationCell", "mindspore.parallel.nn.GradAccumulation"),
    _marked("SparseTensor", "mindspore.COOTensor"),
    _marked("Profiler", "mindspore.profiler.profile"),
    _marked("set_dump", "mindspore.tools.set_dump"),
    _marked("set_auto_parallel_context", "mindspore.parallel.auto_parallel.AutoParallel"),
    _marked("reset_auto_parallel_context", "mindspore.parallel.auto_parallel.AutoParallel"),
    _marked("get_auto_parallel_context", "mindspore.parallel.auto_parallel.AutoParallel"),
)
"""Names that documents mark as deprecated, with what to write: their own advice, or calls measured equal."""

_CURRENT = "mindspore.get_current_device()"
ASKED: dict[str, Fact] = {
    key: Fact("mindspore.get_context", "MV104", "2.8", f"{_CURRENT}.{key}", argument=key)
    for key in ("device_target", "device_id")
}
"""Key of `get_context` -> what says it now."""


def facts() -> tuple[Fact, ...]:
    """Return every fact, for the page of the site and the tests."""
    marked = tuple(Fact(name, "MV105", since) for name, since in marked_names().items())
    return (
        *REMOVED_ARGUMENTS,
        *BY_NAME_ALONE.values(),
        *NUMBER_FIRST,
        *MOVED_ARGUMENTS,
        *REPLACED,
        *ASKED.values(),
        *marked,
    )


def as_number(version: str) -> tuple[int, int]:
    """Return a release as numbers that compare."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def is_in(fact: Fact, version: str) -> bool:
    """Whether a fact holds in a release."""
    return as_number(fact.since) <= as_number(version)
