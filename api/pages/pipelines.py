"""Writes the comparison of two pipelines as a page: images side by side with their difference."""

from __future__ import annotations

import base64
import struct
import zlib
from functools import partial
from html import escape
from pathlib import Path

import numpy as np

from ...ir import shorten_words
from ...process.entry import public_call
from ...process.messages import say
from ...verification.pipelines import DataReport
from ...verification.pipelines.result import told
from .plain import write_plain_page

_WIDE = 224
"""Pixels that an image of a page is wide."""


@public_call()
def write_pipelines(path: str | Path, report: DataReport, *, lang: str = "en") -> Path:
    """Write a comparison of two pipelines as a page.

    Args:
        path: the file; one that exists is replaced.
        report: what `compare_data` found.
        lang: "en" or "zh".

    Raises:
        UsageError: for another language, or a file that cannot be written.
    """
    words = partial(say, lang=lang)
    rows = [
        f"<p><code>{escape(shorten_words(told(f.message, words)))}</code>"
        + (f" <span class='hint'>{escape(shorten_words(words(f.advice)))}</span>" if f.advice else "")
        + "</p>"
        for f in report.findings
    ]
    images = [
        f"<div class='images'>{''.join(map(_image, (a, b, _gap(a, b))))}{_hint(name)}</div>"
        for name, a, b in report.images
    ]
    notes = [_hint(words(note)) for note in report.notes]
    return write_plain_page(
        path,
        lang,
        title="regraft compare-data",
        equal=report.equal,
        line=report.verdict_in(words),
        sides=report.references,
        sections=["".join(rows), "".join(images), "".join(notes)],
    )


def _hint(text: str) -> str:
    return f"<p class='hint'>{escape(shorten_words(text))}</p>"


def _gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the difference of two images, grey for none; all of it where their sizes differ."""
    if a.shape != b.shape:
        return np.zeros_like(a)
    gap = a - b
    return 127.5 + 127.5 * gap / (np.abs(gap).max(initial=0.0) or 1.0)


def _image(pixels: np.ndarray) -> str:
    low, high = float(pixels.min(initial=0.0)), float(pixels.max(initial=255.0))
    scaled = (pixels - low) * (255 / ((high - low) or 1.0))
    data = base64.b64encode(encode_png(scaled.clip(0, 255).astype(np.uint8))).decode()
    return f"<img width='{_WIDE}' alt='' src='data:image/png;base64,{data}'>"


def encode_png(image: np.ndarray) -> bytes:
    """Return rows, columns and channels of 8 bits as a PNG file."""
    if image.shape[-1] not in (1, 3):
        image = image[..., :1]
    height, width, channels = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
