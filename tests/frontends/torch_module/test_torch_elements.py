"""Tensors of element types that NumPy has not of its own, as arrays and back."""

import numpy as np
import pytest
import torch

from regraft.frontends.torch_module.export.tensors import array_of, tensor_of

TYPES = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]


@pytest.mark.parametrize("name", TYPES)
def test_elements_keep_their_type_and_values(name):
    tensor = torch.tensor([[1.5, -2.0], [0.25, 0.0]]).to(getattr(torch, name))
    array = array_of(tensor)
    assert array.dtype.name == name
    assert np.array_equal(array.astype(np.float32), tensor.float().numpy())
    again = tensor_of(array)
    assert again.dtype == tensor.dtype
    assert torch.equal(again.float(), tensor.float())
