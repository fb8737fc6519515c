"""The API of a connection to a dpsql server, over the PostgreSQL protocol."""
