"""Random statements against the planner: sentences of the accepted SQL, and mutations of a corpus."""
