"""The ways in: DB-API, data frames, notebooks, command line, SQLAlchemy, and the server with its client."""
