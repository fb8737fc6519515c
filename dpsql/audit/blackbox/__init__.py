"""Ask two neighbours the same question many times, and let the answers themselves say how far apart they are."""
