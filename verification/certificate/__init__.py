"""Certificates: that two graphs compute the same, exactly, for a third party to check again."""

from __future__ import annotations

from .making import Certified, certify_graphs

__all__ = ["Certified", "certify_graphs"]
