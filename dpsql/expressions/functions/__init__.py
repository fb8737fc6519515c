"""The scalar functions that may stand below an aggregate: one table, one line for each."""
