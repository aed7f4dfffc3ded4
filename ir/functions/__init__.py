"""Functions: bodies that ONNX states for operators of its own, in others of them."""
