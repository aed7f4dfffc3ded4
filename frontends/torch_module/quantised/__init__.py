"""Layers of torch.ao that compute on packed integers, as floats between quantising and dequantising."""
