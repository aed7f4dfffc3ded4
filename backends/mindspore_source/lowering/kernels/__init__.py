"""Passes that write out what MindSpore's kernels do not have."""
