"""Bounds: what can be known of a value from the policy and the SQL text alone."""

from dpsql.bounds.infer import infer, narrow

__all__ = ["infer", "narrow"]
