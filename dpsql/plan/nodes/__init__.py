"""Relational nodes: each is unit-local, and derives its facts from its children."""
