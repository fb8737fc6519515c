"""From the syntax tree to releases over unit-local relations, and finishing SQL."""
