"""The Model Context Protocol server of `regraft mcp`: each tool is a command, run in a process of its own."""

from __future__ import annotations
