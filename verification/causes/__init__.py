"""Finds what makes two nets differ in the code of their methods: the first call, and what to write there."""
