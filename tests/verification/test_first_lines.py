"""The first line of MindSpore's messages that says something stands in the error."""

from __future__ import annotations

import pytest

from regraft.verification.runners.mindspore_cells import refusal

RULES = "----------------------------------------------------"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{RULES}\n- Framework Error Message:\n{RULES}\nFor 'Conv2D', the kernel is wider.", "For 'Conv2D'"),
        (f"The kernel Abs unregistered.\n\n{RULES}\n- C++ Call Stack:\n{RULES}\na.cc:8", "The kernel Abs"),
        ("", ""),
    ],
)
def test_rules_of_dashes_and_headings_are_left_out(text: str, said: str) -> None:
    message = refusal("run", RuntimeError(text)).message
    assert message.startswith(f"MindSpore could not run the model: RuntimeError{': ' + said if said else ''}")
