"""What comes from outside: files, names and texts of strangers, folders, what the system refuses."""
