"""Doors to the same conductor: DB-API, command line."""
