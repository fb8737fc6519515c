"""Apache Spark as an engine: the cluster reads, joins, bounds and adds; integers come back."""
