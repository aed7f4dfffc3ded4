"""Files of tensors, read and written without the frameworks that they belong to."""
