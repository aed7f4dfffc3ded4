"""Control flow on tensors: MindIR's functions, choices and recursion as If and Loop."""
