"""Why queries are refused: one table, with an example of each reason and a rewriting that is answered.

`dpsql refusals` prints it as a page, and a test runs every example and every rewriting.
"""

from __future__ import annotations

from dataclasses import dataclass

PRIVACY = "privacy"
TOTALITY = "totality"
LANGUAGE = "language"
KINDS = {
    PRIVACY: "the answer would show what one person's rows are, or could not be bounded for one person",
    TOTALITY: "some stored value could make the query fail, grow or change, and the failure would reveal something",
    LANGUAGE: "the text does not say what is meant, or names what is not there",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason: its code, its title, why it exists, and what to write instead."""

    code: str
    title: str
    kind: str
    because: str
    example: str
    instead: str


_ALL = (
    Refusal("rows", "Private rows are not listed", PRIVACY,
            "A row belongs to a person. Only aggregates leave, with noise.",
            "SELECT * FROM orders", "SELECT count(*) FROM orders"),
    Refusal("unit-key", "A group for each person is a list of persons", PRIVACY,
            "A key that names the unit has one person in each group, so no one is hidden.",
            "SELECT customer_id, count(*) FROM orders GROUP BY customer_id",
            "SELECT status, count(*) FROM orders GROUP BY status"),
    Refusal("bounds", "A sum needs bounds", PRIVACY,
            "Noise must cover what one person can add; without bounds that is unlimited.",
            "SELECT sum(weight) FROM orders",
            "SELECT sum(weight) FROM orders WHERE weight BETWEEN 0 AND 100"),
    Refusal("aggregate", "Not every aggregate has a private form", PRIVACY,
            "What one person changes in this aggregate cannot be bounded, or it would be somebody's own value.",
            "SELECT string_agg(note, ',') FROM orders", "SELECT count(note) FROM orders"),
    Refusal("choice-of-rows", "Rows are not chosen by other people's rows", PRIVACY,
            "LIMIT, OFFSET, DISTINCT ON and samples keep some people's rows because of what others have.",
            "SELECT count(*) FROM (SELECT * FROM orders LIMIT 10)",
            "SELECT count(*) FROM (SELECT * FROM orders WHERE amount > 10)"),
    Refusal("window", "A window below the aggregate stays within a person", PRIVACY,
            "Otherwise a row's value would depend on other people's rows.",
            "SELECT count(*) FROM (SELECT amount, row_number() OVER (ORDER BY amount) AS r FROM orders) WHERE r = 1",
            "SELECT count(*) FROM (SELECT amount, row_number() OVER (PARTITION BY customer_id ORDER BY amount) AS r "
            "FROM orders) WHERE r = 1"),
    Refusal("set-operation", "UNION, INTERSECT and EXCEPT carry the unit", PRIVACY,
            "Equal rows of different people would become one row that belongs to nobody.",
            "SELECT count(*) FROM (SELECT amount FROM orders UNION SELECT income FROM customers)",
            "SELECT count(*) FROM (SELECT customer_id, amount FROM orders UNION ALL SELECT id, income FROM customers)"),
    Refusal("join", "Private tables are joined by the owner", PRIVACY,
            "A row that is made of two people's rows cannot be counted for one of them.",
            "SELECT count(*) FROM orders o JOIN customers c ON o.amount = c.income",
            "SELECT count(*) FROM orders o JOIN customers c ON o.customer_id = c.id"),
    Refusal("subquery", "A subquery in an expression must return one value", TOTALITY,
            "With several rows it would fail, or pick one of them at random.",
            "SELECT count(*) FROM orders WHERE amount > (SELECT area FROM stores)",
            "SELECT count(*) FROM orders WHERE amount > (SELECT max(area) FROM stores)"),
    Refusal("volatile", "Functions of the clock or of chance are not allowed", TOTALITY,
            "The same query must mean the same each time: it is stored, replayed and compared.",
            "SELECT count(*) FROM orders WHERE random() < 0.5", "SELECT count(*) FROM orders WHERE amount < 50"),
    Refusal("function", "A function below the aggregate must be on the list", TOTALITY,
            "Each one listed is known to give an answer for every stored value, and its bounds are known.",
            "SELECT count(*) FROM orders WHERE soundex(note) = 'x'",
            "SELECT count(*) FROM orders WHERE jaro_winkler_similarity(note, 'x') > 0.9"),
    Refusal("above", "Above the aggregate, too, only listed functions are allowed", TOTALITY,
            "The finishing SQL runs on the server: no files, settings or catalogues.",
            "SELECT count(*), current_setting('threads') FROM orders", "SELECT count(*) + 1 FROM orders"),
    Refusal("table-function", "FROM takes tables of the policy", TOTALITY,
            "Files, catalogues and table functions would bypass the policy.",
            "SELECT count(*) FROM read_csv('other.csv')", "SELECT count(*) FROM orders"),
    Refusal("size", "A query has a limited size", TOTALITY,
            "A short text must not occupy the planner or the engine for long.",
            "SELECT status, count(*) FROM orders GROUP BY CUBE (status, qty, placed, note, fee, price, amount, weight, "
            "customer_id)",
            "SELECT status, count(*) FROM orders GROUP BY CUBE (status)"),
    Refusal("clause", "This clause is not supported", LANGUAGE,
            "It has no private form, or none is implemented yet.",
            "SELECT count(*) FROM orders TABLESAMPLE 10%", "SELECT count(*) FROM orders"),
    Refusal("statement", "Only queries are answered", LANGUAGE,
            "dpsql reads; it never writes, and settings belong to the steward.",
            "DROP TABLE orders", "SELECT count(*) FROM orders"),
    Refusal("name", "A table or column that does not exist for you", LANGUAGE,
            "What the policy does not name does not exist; an ambiguous name must be qualified.",
            "SELECT count(amuont) FROM orders", "SELECT count(amount) FROM orders"),
    Refusal("group-key", "A column beside an aggregate is a group key", LANGUAGE,
            "Otherwise it would have many values for one row of the answer.",
            "SELECT status, amount, count(*) FROM orders GROUP BY status",
            "SELECT status, avg(amount), count(*) FROM orders GROUP BY status"),
    Refusal("types", "Values of different kinds are not mixed", TOTALITY,
            "An implicit cast can fail on some row, and its error would show the value.",
            "SELECT count(*) FROM orders WHERE note = 5", "SELECT count(*) FROM orders WHERE note = '5'"),
    Refusal("error-bar", "An error bar belongs to an aggregate", LANGUAGE,
            "Without noise there is no error, and an error bar has none of its own.",
            "SELECT count(*), dp_error(5) FROM orders", "SELECT count(*), dp_error(count(*)) FROM orders"),
    Refusal("randomized", "RR_COUNT reads answers that were randomised at the source", LANGUAGE,
            "It corrects for the randomisation at the source; on other columns the result would be meaningless.",
            "SELECT rr_count(status) FROM orders", "SELECT count(*) FILTER (WHERE status = 'paid') FROM orders"),
    Refusal("dialect", "The meaning of this in PostgreSQL is not certain", LANGUAGE,
            "Where two dialects differ, the query is read as in its own dialect, or refused.",
            "SELECT /*+ dialect(postgres) */ sum(round(amount)) FROM orders",
            "SELECT /*+ dialect(postgres) */ sum(round(amount, 0)) FROM orders"),
)  # fmt: skip
REFUSALS: dict[str, Refusal] = {refusal.code: refusal for refusal in _ALL}


def page() -> str:
    """The table as a page for people."""
    lines = ["# Why a query is refused, and what to write instead", ""]
    lines += [
        "Made by `dpsql refusals`. A refusal costs nothing and touches no data; its `reason` is one of these codes."
    ]
    for kind, meaning in KINDS.items():
        lines += ["", f"## {kind.capitalize()}", "", f"{meaning[0].upper()}{meaning[1:]}."]
        for refusal in (r for r in REFUSALS.values() if r.kind == kind):
            lines += ["", f"### `{refusal.code}`: {refusal.title}", "", refusal.because, "", "```sql"]
            lines += ["-- refused", refusal.example, "-- answered", refusal.instead, "```"]
    return "\n".join(lines) + "\n"
