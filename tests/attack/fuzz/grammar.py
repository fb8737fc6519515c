"""Sentences of the SQL that is accepted, mostly: productions over the columns of a few tables, drawn at random."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import lru_cache

from dpsql.expressions.functions.table import FUNCTIONS

_SLOT = re.compile(r"\{(\w+)\}")
_LETTER = re.compile(r"(?<![\w'])[abc](?![\w'(])")
DEEPEST = 4

PRODUCTIONS: dict[str, tuple[str, ...]] = {
    "query": (
        "{release}", "{release}", "{release}", "{release}", "WITH c AS ({release}) SELECT {above} FROM c",
        "WITH c AS ({rows}) SELECT {sums} FROM c", "SELECT {sums} FROM ({rows}) AS s", "{release} UNION ALL {release}",
        "SELECT * FROM ({release}) AS s ORDER BY ALL", "SELECT ({scalar}) AS a, ({scalar}) AS b",
        "SELECT {sums} FROM ({perunit}) AS s", "WITH c AS ({perunit}) SELECT n, count(*) AS m FROM c GROUP BY n",
        "{public}", "({release})", "WITH c AS ({release}), d AS ({release}) SELECT count(*) FROM c, d",
        "SELECT {sums} FROM ({rows} UNION ALL {rows}) AS s",
    ),
    "release": (
        "SELECT {sums} FROM {from} {where}",
        "SELECT {key} AS k, {sums} FROM {from} {where} GROUP BY 1 {having} {order}",
        "SELECT {key} AS k, {key} AS l, {sums} FROM {from} {where} GROUP BY ALL {having} {order}",
        "SELECT {sums} FROM {from} {where} GROUP BY {sets} {order}",
        "SELECT region, {sums} FROM people {where} GROUP BY ROLLUP (region) {order}",
        "SELECT DISTINCT {key} FROM {from} {where}",
        "SELECT {key} AS k, {sums}, {window} AS w FROM {from} GROUP BY k {order}",
    ),
    "scalar": ("SELECT {sum} FROM {from} {where}",),
    "rows": (
        "SELECT id, {number} AS n, {text} AS t FROM people {where}",
        "SELECT person, {number} AS n, kind AS t FROM orders {where}",
        "SELECT * FROM people {where}",
        "SELECT id, age AS n, row_number() OVER (PARTITION BY id ORDER BY age) AS t FROM people",
        "SELECT DISTINCT id, {number} AS n FROM people", "SELECT {number} AS n FROM visits",
    ),
    "perunit": (
        "SELECT id, count(*) AS n FROM people GROUP BY id",
        "SELECT person, {sum} AS n FROM orders {where} GROUP BY person {having}",
        "SELECT person, kind, {sum} AS n FROM orders GROUP BY ALL",
        "SELECT person AS n, max(amount) AS m FROM orders GROUP BY person",
    ),
    "public": ("SELECT {number} FROM stores", "SELECT area, count(*) FROM stores GROUP BY area", "SELECT {literal}",
               "SELECT name FROM stores WHERE {condition} LIMIT 3"),
    "from": (
        "people", "people", "people", "people", "orders", "orders", "orders", "orders", "visits", "visits",
        "people AS p", "orders o",
        "people JOIN orders ON id = person",
        "orders LEFT JOIN people ON person = id", "people p, orders o", "orders JOIN stores ON number = store",
        "(people)",
        "people JOIN stores ON region = area",
        "people FULL JOIN orders ON people.id = orders.person",
        "(SELECT * FROM people {where}) AS s", "people SEMI JOIN orders ON id = person",
        "people JOIN people q USING (id)",
        "orders CROSS JOIN stores", "main.people", '"people"',
    ),
    "where": ("", "", "WHERE {condition}", "WHERE {condition}", "WHERE {condition} AND {condition}"),
    "having": ("", "", "HAVING {sum} > 2", "HAVING count(*) > 1 AND {condition}", "HAVING {condition}"),
    "order": ("", "", "ORDER BY 1", "ORDER BY ALL DESC", "ORDER BY {sum} DESC, 1", "ORDER BY 1 LIMIT 3",
              "ORDER BY 1 NULLS FIRST OFFSET 1",
              "QUALIFY row_number() OVER (ORDER BY {sum}) < 3"),
    "sets": ("ROLLUP ({key})", "CUBE ({key}, {key})", "GROUPING SETS (({key}), ())", "{key}, {key}"),
    "window": ("sum(count(*)) OVER ()", "rank() OVER (ORDER BY {sum})", "lag({sum}) OVER (ORDER BY 1)",
               "{sum} / sum({sum}) OVER ()"),
    "above": ("*", "count(*)", "max(c.k)", "c.*, 1 AS one", "{literal}"),
    "sums": ("{sum}", "{sum}", "{sum} AS s", "{sum}, {sum}", "{sum}, {sum} AS s, {sum}"),
    "sum": (
        "count(*)", "count(*)", "sum({number})", "avg({number})", "count({any})", "count(DISTINCT {any})",
        "sum({number}) / count(*)",
        "count(*) FILTER (WHERE {condition})", "round(avg({number}), 2)", "sum({number}) + {literal}",
        "count_if({condition})",
        "stddev({number})", "var_pop({number})", "median({number})", "min({number})", "max({number})",
        "coalesce(sum({number}), 0)",
        "quantile_cont({number}, 0.5)", "CASE WHEN count(*) > 3 THEN 'many' ELSE {text} END",
        "sum(CASE WHEN {condition} THEN 1 ELSE 0 END)",
        "dp_low(count(*))", "covar_pop({number}, {number})", "bool_or({condition})", "sum(DISTINCT {number})",
    ),
    "key": ("region", "kind", "vip", "region", "kind", "{text}", "{number}", "date_trunc('month', {moment})",
            "age // 10", "{condition}",
            "qty", "extract(year FROM {moment})", "CASE WHEN {condition} THEN 'a' ELSE 'b' END", "{any}"),
    "condition": (
        "{number} > {number}", "{number} BETWEEN 1 AND 50", "{text} = 'north'", "{text} IN ('north', 'paid')",
        "{any} IS NULL",
        "{any} IS NOT NULL", "vip", "NOT {condition}", "{condition} AND {condition}", "{condition} OR {condition}",
        "{text} LIKE 'n%'", "{moment} >= DATE '1988-01-01'", "{moment} < '1990-01-01'", "{number} IN (1, 2, 3)",
        "id IN (SELECT person FROM orders)", "EXISTS (SELECT 1 FROM orders AS f WHERE f.person = id)",
        "{number} <> {literal}", "true",
        "{number} > (SELECT avg(size) FROM stores)", "regexp_matches({text}, '[a-z]+')", "{function} IS NOT NULL",
        "{number} = ANY (SELECT size FROM stores)",
    ),
    "number": (
        "age", "income", "amount", "price", "qty", "duration", "size", "number", "n", "{literal}",
        "{number} + {number}",
        "{number} * {number}", "{number} / {number}", "-{number}", "{number} % 7", "abs({number})",
        "CAST({any} AS INTEGER)",
        "coalesce({number}, 0)", "CASE WHEN {condition} THEN {number} ELSE {number} END", "{function}",
        "length({text})",
        "extract(month FROM {moment})", "date_diff('day', {moment}, {moment})", "least({number}, {number})",
        "round({number}, 1)",
        "{number} ** 2", "{number} // 3", "({number})", "{any}::DOUBLE", "TRY_CAST({text} AS INTEGER)", "id", "person",
    ),
    "text": ("region", "kind", "note", "remark", "page", "name", "'x'", "{text} || {text}", "upper({text})",
             "substr({text}, 1, 2)",
             "CAST({any} AS VARCHAR)", "{function}", "coalesce({text}, 'none')", "replace({text}, 'a', 'b')", "t"),
    "moment": ("born", "placed", "DATE '1988-06-15'", "{moment} + INTERVAL 1 DAY", "CAST({text} AS DATE)",
               "{moment} - INTERVAL '1' MONTH",
               "date_trunc('week', {moment})", "TIMESTAMP '1988-06-15 10:00:00'"),
    "any": ("{number}", "{text}", "{moment}", "{condition}", "age", "note", "NULL"),
    "literal": ("0", "1", "-1", "2.5", "1e9", "10", "NULL", "'text'", "true", "9223372036854775807", "0.1",
                "100000000000000000000", "1e400"),
}  # fmt: skip
"""What a word can become; the first of each list are short, and are taken where a sentence is deep enough."""
FORMS = tuple(form for function in FUNCTIONS.values() for form in function.written)


COLUMNS: dict[str, frozenset[str]] = {
    "people": frozenset({"id", "age", "region", "income", "vip", "note", "born"}),
    "orders": frozenset({"person", "number", "amount", "price", "qty", "kind", "placed", "remark"}),
    "visits": frozenset({"duration", "page"}),
    "stores": frozenset({"store", "name", "area", "size"}),
    "c": frozenset({"n", "k"}),
    "s": frozenset({"n", "t"}),
}
_TABLE = re.compile(rf"\b(?:FROM|JOIN|,) \(?(?:main\.)?\"?({'|'.join(COLUMNS)})\b")


@dataclass(slots=True)
class Grammar:
    """Draws sentences. Names are mostly those of the tables in FROM; one sentence in eight takes any."""

    rng: random.Random
    scope: frozenset[str] = frozenset()

    def sentence(self, word: str = "query", depth: int = 0) -> str:
        """One way to say it."""
        if word == "function":
            inner = lambda _: self.sentence(self.rng.choice(("number", "text", "any")), depth + 2)  # noqa: E731
            return _LETTER.sub(inner, self.rng.choice(FORMS))
        chosen = self._chosen(PRODUCTIONS[word], depth)
        if "{from}" in chosen:
            chosen = chosen.replace("{from}", self.sentence("from", depth + 1))
        before, tables = self.scope, [] if word == "condition" else _TABLE.findall(chosen)
        if tables:
            self.scope = (
                frozenset().union(*(COLUMNS[table] for table in tables)) if self.rng.random() < 0.88 else frozenset()
            )
        made = _SLOT.sub(lambda slot: self.sentence(slot[1], depth + 1), chosen)
        self.scope = before
        return made

    def _chosen(self, choices: tuple[str, ...], depth: int) -> str:
        """What is short where it is deep, and what is in scope."""
        known = [each for each in choices if not self.scope or _names(each) <= self.scope]
        flat = [each for each in known if "{" not in each] if depth > DEEPEST else []
        return self.rng.choice(flat or (known[:3] if depth > DEEPEST else known) or choices)


_NAMES = frozenset().union(*COLUMNS.values())
_INNER = re.compile(r"\(SELECT [^()]* FROM \w+(?: AS \w+)?|'[^']*'|\w+\.\w+|\{\w+\}")
_OWNERS = (" FROM ", " JOIN ")


@lru_cache(maxsize=10_000)
def _names(production: str) -> frozenset[str]:
    """The columns that a part of a sentence takes from around it."""
    outside = _INNER.sub(" ", production)
    return (
        frozenset()
        if any(word in f" {outside}" for word in _OWNERS)
        else _NAMES & frozenset(re.findall(r"\w+", outside))
    )
