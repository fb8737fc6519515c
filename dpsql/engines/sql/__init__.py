"""The SQL that all engines share, written afresh from the plan; each engine overrides what its dialect differs in."""
