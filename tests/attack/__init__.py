"""Attacks on dpsql itself, over worlds made for the purpose. `python tests/attack/run.py` runs them and writes a report.

`dpsql audit` (in `dpsql.audit`) looks at a steward's own policy and data; these checks need neither.
"""
