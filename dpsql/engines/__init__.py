"""Engines: where the exact integers come from."""
