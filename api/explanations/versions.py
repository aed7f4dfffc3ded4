"""Pages of what releases of MindSpore remove, change and mark for removal."""

from __future__ import annotations

from .page import Page

PAGES: dict[str, Page] = {
    "MV101": Page(
        "The release has removed the argument, or takes it by name alone: the call raises an error.",
        "net.register_forward_hook(hook, True)  # MindSpore 2.9 takes with_kwargs by name",
        "Write what the finding says; `regraft fix FILE --for RELEASE` does so where the meaning stays.",
    ),
    "MV102": Page(
        "Since MindSpore 2.9 `equal`, `less` and `lt` raise an error for a number as their first operand.",
        "ops.less(1e-5, x)",
        "Exchange the operands: ops.greater(x, 1e-5). `regraft fix FILE --for RELEASE` does so.",
    ),
    "MV103": Page(
        "MindSpore marks the arguments of set_context for removal; functions of their own replace them.",
        'mindspore.set_context(device_target="CPU", max_call_depth=500)',
        'mindspore.set_device("CPU") and mindspore.set_recursion_limit(500); `regraft fix FILE --for '
        "RELEASE` writes them. set_device has to come before the first operator.",
    ),
    "MV104": Page(
        "MindSpore's documents mark the name as deprecated; another name does the same.",
        "ops.expand_dims(x, 0)",
        "ops.unsqueeze(x, 0). `regraft fix FILE --for RELEASE` writes those that are measured equal.",
    ),
    "MV105": Page(
        "MindSpore's documents mark the name as deprecated and name nothing else. It works in the release, "
        "so this is a note.",
        "ops.gather_nd(x, indices)",
        "Nothing yet; a later release may remove it.",
    ),
}
