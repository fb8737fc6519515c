"""Rules `row` and `single_row`: a unit is one row.

**Theorem.** If each unit owns at most one row of the relation, and the row adds an integer vector of at most M per
statistic in one group, adding or removing a unit changes one coordinate of each statistic, by at most M.
**Proof.** The totals are exact integer sums over rows; a unit adds one summand, clamped to [−M, M] in the row, at the
coordinate of the row's own group (one key each, by evaluation of the key on that row).
**Requires** `unit: row`, or a relation that is `single`: verified uniqueness of the unit column, or GROUP BY unit.
A declared `unique: true` that was not verified is enforced by rule `clip` or `one_group` with one row per unit.
**Checked by** `tests/audit/test_neighbours.py` and the planted bugs "no clamp" and "unverified unique believed".
"""
