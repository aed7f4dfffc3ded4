"""regraft: rewrites neural-network models between frameworks and proves that the rewrite is the same model."""
