"""Typed expressions over one row: the allow-list of what may stand below an aggregate."""
