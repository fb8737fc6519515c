"""What the Python door asks of a server: `SELECT dpsql.query('<json>')`, also explain, intervals, budget and others.

It is the same connection with the same rights: a call reaches the methods of `Connection` that any door has, once. What
an answer's error bars need stays with the server, for the last few answers of each client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError
from dpsql.interfaces.client.json_codec import pack, tell, unpack
from dpsql.interfaces.server.server_limits import MemoryQuota, size_of
from dpsql.options import QueryKeywords, QueryOptions

if TYPE_CHECKING:
    from dpsql.answers.explain import Explanation
    from dpsql.answers.result import Result
    from dpsql.session import Connection

MOST_RESULTS = 8
NAMES = ("query", "explain", "expected_error", "rank_error", "intervals", "settle", "budget", "tables")
_NUMBER, _NAME = (int, float, Decimal, type(None)), (str, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    "sql": (str,), "parameters": (list, tuple, dict, type(None)), "price": _NAME, "epsilon": _NUMBER, "delta": _NUMBER,
    "mechanism": _NAME, "dialect": _NAME, "clipped": (int,), "nonnegative": (int,), "confidence": (int, float, Decimal),
}  # fmt: skip
"""What the words of a call may be; what is asked for must be in range too, which dpsql looks at."""
_SETTINGS = ("epsilon", "delta", "mechanism", "dialect", "price")
_ASKING = frozenset(QueryKeywords.__annotations__)


@dataclass(slots=True)
class RecentResults:
    """The last answers of one client, within the memory that its account may use."""

    room: MemoryQuota
    account: str
    kept: dict[int, tuple[Result, int]] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def keep(self, result: Result) -> int:
        """Remember an answer, if it fits, in place of the oldest; its number."""
        number, size = next(self.numbers), size_of((result.table.rows, result.released, result.bar_columns))
        while len(self.kept) >= MOST_RESULTS:
            self._drop()
        while not (fits := self.room.keep(self.account, size)) and self.kept:
            self._drop()
        if fits:
            self.kept[number] = result, size
        return number

    def _drop(self) -> None:
        """The oldest goes."""
        _, size = self.kept.pop(next(iter(self.kept)))
        self.room.drop(self.account, size)

    def close(self) -> None:
        """All go."""
        while self.kept:
            self._drop()

    def find(self, number: object) -> Result:
        """An answer by its number, while it is kept."""
        found, _ = self.kept.get(number, (None, 0)) if isinstance(number, int) else (None, 0)
        if found is None:
            raise InterfaceError(
                "the server no longer has this answer",
                hint="run the query again, which is replayed; or ask for fewer rows",
            )
        return found


def read_call(text: str) -> dict[str, Any]:
    """The JSON of a call."""
    try:
        words = unpack({"map": list(json.loads(text).items())})
    except (ValueError, AttributeError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise InterfaceError("this is not a dpsql call", hint="connect with dpsql.connect('dpsql://…')")
    return words


def answer(db: Connection, name: str, words: dict[str, Any], results: RecentResults) -> str:
    """The answer of one call, as JSON."""
    given = words.get("asked") or ()
    asked = (
        dict(zip(("epsilon", "delta", "mechanism", "dialect", "price"), given, strict=False))
        if type(given) is tuple
        else {}
    )
    try:
        if not (_kinds_fit(words) and _kinds_fit(asked)):
            raise TypeError
        db.asked = QueryOptions(**asked)
        return json.dumps(_CALLS[name](db, words, results))
    except (TypeError, KeyError):
        raise InterfaceError(
            "this call has arguments that are not known", hint="use the same version of dpsql on both sides"
        ) from None


def _kinds_fit(words: dict[str, Any]) -> bool:
    return all(isinstance(words[name], kinds) for name, kinds in _KINDS.items() if name in words)


def _query(db: Connection, words: dict[str, Any], results: RecentResults) -> dict[str, Any]:
    result = db.query(words["sql"], words.get("parameters"), **_asking(words))
    rows = [[pack(value) for value in row] for row in result.fetchall()]
    way = result.way_out if result.has_quick_bars else None
    return {
        "number": results.keep(result), "columns": result.columns, "types": result.types, "rows": rows,
        "cost": asdict(result.cost), "replayed": result.replayed, "mechanism": result.mechanism,
        "notes": result.notes, "clipped": [[pack(v) for v in asdict(each).values()] for each in result.clipped],
        "noisy": [output.noisy for output in result.plan.outputs], "wholes": result.wholes,
        "way_out": None if way is None else asdict(way),
    }  # fmt: skip


def _explained(db: Connection, words: dict[str, Any]) -> Explanation:
    asking = {name: value for name, value in _asking(words).items() if name != "nonnegative"}
    return db.explain(words["sql"], words.get("parameters"), **asking)


def _explain(db: Connection, words: dict[str, Any], _: RecentResults) -> dict[str, Any]:
    return tell(_explained(db, words))


def _expected_error(db: Connection, words: dict[str, Any], _: RecentResults) -> dict[str, Any]:
    return dict(_explained(db, words).expected_error(words["confidence"], words.get("n")))


def _rank_error(db: Connection, words: dict[str, Any], _: RecentResults) -> dict[str, Any]:
    release, choice, missed = words["place"]
    try:
        return {"rank": _explained(db, words).releases[release].choices[choice].expected_error(1 - missed)}
    except IndexError:
        raise InterfaceError("there is no such choice", hint="explain the query again") from None


def _asking(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if name in _ASKING}


def _intervals(_: Connection, words: dict[str, Any], results: RecentResults) -> dict[str, Any]:
    frame = results.find(words["number"]).intervals(words["confidence"], simultaneous=bool(words["simultaneous"]))
    columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
    return {
        "columns": list(frame.columns),
        "dtypes": [str(column.dtype) for column in columns],
        "values": [[pack(value) for value in column] for column in columns],
    }


def _settle(db: Connection, *_: object) -> dict[str, Any]:
    db.ask(db.asked)
    return {}


def _budget(db: Connection, *_: object) -> dict[str, Any]:
    def packed(part: Any) -> Any:
        return {key: packed(each) for key, each in part.items()} if isinstance(part, dict) else pack(part)

    made: dict[str, Any] = packed(asdict(db.budget()))
    return made


def _tables(db: Connection, *_: object) -> dict[str, Any]:
    from dpsql.interfaces.visible_tables import visible_tables

    listed = visible_tables(db)
    return {table.name: [[c.name, c.type, c.note] for c in table.columns] for table in listed}


_CALLS: dict[str, Callable[[Connection, dict[str, Any], RecentResults], dict[str, Any]]] = {
    "query": _query, "explain": _explain, "expected_error": _expected_error, "rank_error": _rank_error,
    "intervals": _intervals, "settle": _settle, "budget": _budget,
    "tables": _tables,
}  # fmt: skip
assert tuple(_CALLS) == NAMES
