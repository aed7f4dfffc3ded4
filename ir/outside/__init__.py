"""The system's edge: files, names and texts from strangers, temporary folders, system errors."""
