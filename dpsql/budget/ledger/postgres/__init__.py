"""A ledger in a PostgreSQL database, shared by servers on many machines (extra `postgres`, psycopg 3)."""
