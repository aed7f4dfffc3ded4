"""TorchScript archives (`torch.jit.save`): their modules, run by an interpreter of operators alone."""
