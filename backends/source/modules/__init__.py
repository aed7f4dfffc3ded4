"""From modules to Cells and the definitions of their classes: what each constructs, takes and calls."""
