"""Tests which parameters a comparison notices: changes each, and measures the effect."""
