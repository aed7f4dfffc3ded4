"""Random programs of a framework, compared with it: `make fuzz-programs`, and a few in the tests."""
