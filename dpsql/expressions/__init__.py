"""Typed expressions over one row: the allow-list of what may be computed below an aggregate."""
