"""Plan building: a file for each clause of a query."""
