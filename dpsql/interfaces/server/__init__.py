"""A PostgreSQL server to its clients, a door of dpsql to the steward: `dpsql serve`."""
