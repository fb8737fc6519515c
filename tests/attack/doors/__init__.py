"""Statements that no door may run: a list as data, some that are generated, and what must hold of each."""
