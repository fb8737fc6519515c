"""PostgreSQL as an engine: one read-only snapshot for each query (extra `postgres`, psycopg 3)."""
