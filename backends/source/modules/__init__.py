"""From modules to EmittedNet and the definitions of their classes: what each constructs, takes and calls."""
