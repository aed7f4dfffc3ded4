"""The facts on the layers of torch, MindSpore and MXNet, each stated once, in a file a framework."""
