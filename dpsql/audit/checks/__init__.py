"""The checks of the audit, one module each: a docstring whose first line says what it shows, and `check`."""
