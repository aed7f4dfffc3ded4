"""Plants faults in what was written from a net, and counts which of them the verification catches."""
