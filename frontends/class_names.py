"""Class names of models that have none: made of what a file, or a part of it, is called."""

from __future__ import annotations

import re


def class_name(text: str, otherwise: str) -> str:
    """Return a class name made of the words of a text.

    Args:
        text: of any characters.
        otherwise: goes before a name that would begin with no letter.

    Example:
        >>> class_name("resnet18_v1", "Net"), class_name("3d-conv", "Net")
        ('Resnet18V1', 'Net3dConv')
    """
    words = [word for word in re.split(r"[^0-9A-Za-z]+", text) if word]
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"{otherwise}{name}"
