"""DuckDB as an engine: database files, folders of files, and data frames."""
