"""From modules to drafts of Cells: what each constructs, takes and calls."""
