"""`df.dp.randomize`: each person's answer, randomised at the source, and the same again when asked again."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.protection import PerTable
from dpsql.local import ATTRS, Answers
from dpsql.mechanisms import RandomizedResponse
from dpsql.mechanisms.exact_numbers import Number
from dpsql.plan.catalog import suggest

if TYPE_CHECKING:
    import pandas as pd

_answers: PerTable[Answers] = PerTable(lambda _: Answers())


def randomize(
    frame: pd.DataFrame,
    column: str,
    *,
    epsilon: Number,
    values: Sequence[Hashable] | None = None,
    unit: str | None = None,
    question: str | None = None,
    name: str | None = None,
    answers: str | os.PathLike[str] | None = None,
) -> pd.Series[Any]:
    """A column of randomised answers: safe to hand on, with ε-differential privacy for what each person answered.

    `values` lists what may be answered (a boolean column needs no list), never what is found in the data. `unit` names
    the column of the person; without it each row is a person, known by its index. Asked again, everyone gives the same
    answer: this process remembers it for the very frame, or for the `name` of the survey; with
    `answers="survey.answers"` a file remembers it for ever. Another ε is refused, unless it is another `question`,
    whose ε adds to the first. **Who answers is public.** Rows come in the order of people's names, since the
    frame's own may tell of their truths: a frame that is sorted by the column would give it away.
    """
    import pandas as pd

    numbered = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    if unit is None and numbered and (name is not None or answers is not None):
        raise InterfaceError(
            "unit is missing: row numbers stand for other people in another frame",
            hint='write unit="user_id", or make it the index',
        )
    if answers is not None and os.fspath(answers) in ("", ":memory:"):
        raise InterfaceError("answers must name a file that keeps the answers", hint='write answers="survey.answers"')
    people = frame.index if unit is None else _column(frame, unit)
    truths = _column(frame, column)
    if values is None and not pd.api.types.is_bool_dtype(truths):
        raise InterfaceError(
            "what may be answered?", hint=f'write values=["yes", "no"], all that {column} could be, not what is there'
        )
    response = RandomizedResponse(epsilon, values if values is not None else (False, True))
    store = Answers(answers) if answers is not None else _answers.of(frame, name)
    try:
        names = people.tolist()
        given = store.ask(question or column, names, truths.tolist(), response)
    finally:
        if answers is not None:
            store.close()
    order = sorted(range(len(names)), key=lambda i: (type(names[i]).__name__, names[i]))
    made: pd.Series[Any] = pd.Series(given, index=people if unit is not None else frame.index, name=column).iloc[order]
    made.attrs[ATTRS] = {"epsilon": epsilon, "values": list(response.values)}
    return made


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in frame.columns:
        raise InterfaceError(f"there is no column {name!r}", hint=suggest(str(name), list(map(str, frame)), "columns"))
    return frame[name]
