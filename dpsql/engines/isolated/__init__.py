"""An engine in a process of its own: it holds the private data, and hands out exact integers only."""
