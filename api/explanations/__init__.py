"""Pages of codes: for each its cause, an example and what to do; a test asserts that no code is without."""
