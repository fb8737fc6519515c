"""Private searches: for bounds that the policy leaves open, and for the best clip of what a unit adds."""
