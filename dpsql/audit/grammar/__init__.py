"""Random SQL over the tables of a policy: what an analyst might write, of every shape that the planner accepts."""
