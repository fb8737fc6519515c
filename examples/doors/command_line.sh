#!/usr/bin/env sh
# The command line: what a query would cost, its answer, and what is left.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python "$(dirname "$0")/clinic.py" "$folder"
query="SELECT ward, count(*) AS n FROM patients WHERE age > 40 GROUP BY ward"
dpsql explain "$folder/clinic.duckdb" "$query" --analyst ana --epsilon 0.5
dpsql query "$folder/clinic.duckdb" "$query" --analyst ana --epsilon 0.5 --format csv
dpsql budget "$folder/clinic.duckdb" --analyst ana
