"""The scalar functions allowed below an aggregate: one table, one line for each."""
