"""An engine in a process of its own, which holds the private data and returns only exact integers."""
