"""Text of emitted files that no operator decides: what builds a net, and its tests."""
