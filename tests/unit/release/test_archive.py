"""Answers from the ledger, on releases made by hand: which earlier one is taken, what is noted, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pytest
from hand_made_catalog import catalog_of
from unlocked import released as made_up

from dpsql.answers.reuse import OF_MORE, OF_MORE_GROUPS, Archive
from dpsql.answers.serialize import serialize
from dpsql.bounds.domain import Domain, finite, interval
from dpsql.budget import Cost, Ledger, open_ledger
from dpsql.budget.accountant import Caps
from dpsql.budget.ledger import chained_ledger as clock
from dpsql.budget.ledger.interface import Request
from dpsql.budget.pricing import Portion, Priced, charge_of, price_release
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT, BOOLEAN, TEXT
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.joins import inner_join
from dpsql.plan.nodes.relation import UNIT, Aggregate, Field, Item, JoinSide, Relation, Scan
from dpsql.plan.nodes.released_scan import ReleasedScan
from dpsql.plan.nodes.unary import filtered
from dpsql.plan.plan import Release
from dpsql.sensitivity.bound import bound

FIELDS = (
    Field("u", BIGINT, Domain(), attribute=True, owner=UNIT),
    Field("x", BIGINT, interval(0, 9)),
    Field("y", BIGINT, interval(0, 9)),
    Field("k", TEXT, finite(("a", "b"), TEXT, nullable=False)),
    Field("of", TEXT, finite(("p", "q"), TEXT, nullable=False), attribute=True),
)
TABLE = Scan(FIELDS, False, 5, False, table="t", unit="u", unit_type=BIGINT)
CAPS = Caps(Fraction(10**6))


def column(name: str) -> Column:
    return Column(TABLE.field(name).type, name=name)


COUNT, SUM, OTHER = Aggregate("count", None), Aggregate("sum", column("x")), Aggregate("sum", column("y"))


def only(name: str, value: str) -> Relation:
    return filtered(TABLE, call("eq", BOOLEAN, column(name), literal(value)))


def priced(
    *parts: object, asks: tuple[Aggregate, ...], key: str = "k", source: Relation = TABLE, exact: bool = False
) -> Priced:
    """A release at these prices, one for each aggregate."""
    prices = tuple(Fraction(str(part)) for part in parts)
    made = bound(Release("r", "t", source, (Item("_k0", column(key)),), asks, 3), "laplace", catalog_of(TABLE))
    return price_release(made, Portion("laplace", sum(prices, Fraction(0)), prices, exact=exact))


def emitted(asked: Priced) -> str:
    release = asked.bounded.release
    return f"{release.source} {release.keys} {release.aggregates}"


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger(":memory:", "d") as opened:
        yield opened


def archive(ledger: Ledger, analyst: str = "ana", version: str = "v", **more: object) -> Archive:
    return replace(Archive(ledger, emitted, "d", version, catalog_of(TABLE), analyst, None), **more)  # type: ignore[arg-type]


def kept(ledger: Ledger, made: Priced, value: int, analyst: str = "ana", *, alone: bool = False) -> bytes:
    """Store a release all of whose values are `value`, paid by the analyst."""
    charge, box = charge_of([made]), archive(ledger, analyst)
    assert charge is not None
    mark = box.mark(made)
    groups = len(made.bounded.keys[0].values or ())
    released = made_up(made, ((),) * groups, tuple(np.full(groups, value) for _ in made.noised))
    entry = ledger.reserve(Request(analyst, charge, Cost(1, 0, 0), CAPS, CAPS, "sql", (mark,))).entry
    ledger.store(entry, mark, serialize(released), box.about(made, alone=alone))
    return mark


def found(box: Archive, asked: Priced) -> tuple[int, tuple[str, ...]] | None:
    """The value of the release that answers, and its notes."""
    hit = box.find(asked, box.mark(asked))
    if hit is None:
        return None
    assert hit.released.priced.bounded.release.aggregates == asked.bounded.release.aggregates
    values = {int(v) for source in hit.released.priced.bounded.sources for v in hit.released.noisy[source.first]}
    assert len(values) == 1
    return values.pop(), hit.notes


ONE = priced(1, asks=(COUNT,))


def test_the_very_release_is_given_again_as_it_was(ledger: Ledger) -> None:
    assert found(archive(ledger), ONE) is None
    mark = kept(ledger, ONE, 7)
    hit = archive(ledger).find(ONE, mark)
    assert hit is not None and hit.mark == mark and hit.stored.analyst == "ana" and hit.notes == ()
    assert hit.released.keys == (("a",), ("b",)) and [v.tolist() for v in hit.released.noisy] == [[7, 7]]
    assert found(archive(ledger, "bob"), ONE) == (7, ())
    assert found(archive(ledger), priced(1, asks=(COUNT,), exact=True)) == (7, ())
    assert found(archive(ledger, version="w"), ONE) is None


def test_a_release_of_more_columns_answers_and_says_where_its_noise_is_larger(ledger: Ledger) -> None:
    kept(ledger, priced("0.5", 2, asks=(COUNT, SUM)), 7)
    assert found(archive(ledger), ONE) == (7, (OF_MORE,))
    assert found(archive(ledger), priced("0.5", asks=(SUM,))) == (7, ())
    assert found(archive(ledger), priced("0.4", asks=(SUM,))) == (7, ())
    assert found(archive(ledger), priced(3, asks=(SUM,))) is None


def test_the_least_part_of_each_is_compared(ledger: Ledger) -> None:
    kept(ledger, priced(1, 1, 1, asks=(COUNT, SUM, OTHER)), 7)
    assert found(archive(ledger), priced("0.5", 2, asks=(COUNT, SUM))) == (7, ())
    assert found(archive(ledger), priced("1.1", "1.2", asks=(SUM, OTHER))) == (7, (OF_MORE,))
    assert found(archive(ledger), priced(1, 1, asks=(SUM, OTHER))) == (7, ())


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_the_most_accurate_release_is_taken_in_whatever_order_they_were_made(ledger: Ledger, turn: int) -> None:
    """That is the one whose noisiest part has the least noise."""
    made = [((1, 1), 1), ((3, 3), 3), (("0.25", 100), 100), ((2, 2), 2)]
    for parts, value in made[turn:] + made[:turn]:
        kept(ledger, priced(*parts, asks=(COUNT, SUM)), value)
    assert found(archive(ledger), priced("0.1", asks=(COUNT,))) == (3, ())


def test_what_was_priced_for_an_accuracy_is_answered_by_itself_only(ledger: Ledger) -> None:
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 7)
    assert found(archive(ledger), priced(1, asks=(COUNT,), exact=True)) is None
    assert found(archive(ledger), priced(1, asks=(COUNT,))) == (7, ())


def test_a_release_that_does_not_show_what_is_asked_is_no_answer(ledger: Ledger) -> None:
    kept(ledger, priced(1, 1, asks=(SUM, OTHER)), 7)
    assert found(archive(ledger), ONE) is None
    kept(ledger, priced(5, 5, asks=(COUNT, SUM)), 9, alone=True)
    assert found(archive(ledger), ONE) is None
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 8)
    assert found(archive(ledger), ONE) == (8, ())


def test_another_release_is_taken_where_the_most_accurate_is_none_for_this_analyst(ledger: Ledger) -> None:
    kept(ledger, priced(9, 9, asks=(COUNT, SUM)), 9, "bob")
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 1)
    assert found(archive(ledger), ONE) == (1, ())
    assert found(archive(ledger, "bob"), ONE) == (9, ())


@pytest.mark.parametrize(("price", "given"), [("1.5", False), (2, True), ("1.9", False)])
def test_anothers_release_is_given_for_no_more_than_what_is_asked(ledger: Ledger, price: object, given: bool) -> None:
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 7, "bob")
    asked = priced(price, asks=(COUNT,))
    assert found(archive(ledger), asked) == ((7, (OF_MORE,)) if given else None)
    assert found(archive(ledger, "bob"), asked) == (7, (OF_MORE,))


def test_the_best_is_one_for_which_the_analyst_is_counted_nothing(ledger: Ledger) -> None:
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 7, "bob")
    asked = priced(2, asks=(COUNT,))
    assert archive(ledger).best(asked) is None
    own = archive(ledger, "bob").best(asked)
    assert own is not None and own.released.noisy[0].tolist() == [7, 7]
    assert found(archive(ledger), asked) == (7, (OF_MORE,))
    exactly = archive(ledger, "bob").best(priced(2, asks=(COUNT,), exact=True))
    assert exactly is not None


def test_a_release_that_would_be_made_otherwise_now_is_not_given(ledger: Ledger) -> None:
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 7)
    other = archive(ledger, emit=lambda asked: f"another dialect: {emitted(asked)}")
    assert other.find(ONE, other.mark(ONE)) is None


def test_a_release_that_grows_too_old_while_it_is_looked_up_is_no_answer(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(ledger, priced(1, 1, asks=(COUNT, SUM)), 7)
    mark, later = archive(ledger).mark(ONE), clock.now() + timedelta(hours=2)

    def slow(asked: Priced) -> str:
        monkeypatch.setattr(clock, "now", lambda: later)
        return emitted(asked)

    young = archive(ledger, keep=timedelta(hours=1))
    assert young.find(ONE, mark) is not None
    assert replace(young, emit=slow).find(ONE, mark) is None


@pytest.mark.parametrize(("key", "value", "notes"), [("k", "a", (OF_MORE_GROUPS,)), ("of", "p", ())])
def test_a_release_of_more_groups_says_so_where_units_are_in_several_of_them(
    ledger: Ledger, key: str, value: str, notes: tuple[str, ...]
) -> None:
    whole = priced(1, 1, asks=(COUNT, SUM), key=key)
    kept(ledger, whole, 7)
    asked = priced(1, asks=(COUNT,), key=key, source=only(key, value))
    assert found(archive(ledger), asked) == (7, notes)
    hit = archive(ledger).find(asked, archive(ledger).mark(asked))
    assert hit is not None and hit.released.keys == ((value,),) and len(hit.released.noisy[0]) == 1
    assert found(archive(ledger), priced(1, asks=(COUNT,), key=key)) == (7, ())


def test_what_a_release_is_kept_with(ledger: Ledger) -> None:
    box, charge = archive(ledger), charge_of([ONE])
    alone, plain = box.about(ONE, alone=True), box.about(ONE, alone=False)
    assert (alone.family, alone.recipe, alone.charge) == (b"", {}, charge)
    assert len(plain.family) == 32 and plain.recipe["portion"] == ["1", "0", "1"] and plain.charge == charge
    more = box.about(priced(2, 1, asks=(COUNT, SUM)), alone=False)
    assert more.family == plain.family and more.charge != charge
    assert (
        box.about(replace(ONE, bounded=priced(1, asks=(COUNT,), key="of").bounded), alone=False).family != plain.family
    )


def scan(name: str, digest: str | None) -> JoinSide:
    fields = (Field("k", TEXT, Domain()),)
    return JoinSide(ReleasedScan(fields, False, 1, False, name, frozenset({"k"}), digest), (f"{name}.k",))


@pytest.mark.parametrize(
    ("digests", "named"),
    [((None,), False), (("d",), True), (("d", None), False), ((None, "d"), False), (("d", "e"), True)],
)
def test_a_release_is_marked_once_all_that_it_reads_is_named(
    ledger: Ledger, digests: tuple[str | None, ...], named: bool
) -> None:
    table = JoinSide(TABLE, tuple(f.name for f in FIELDS))
    others = [scan(f"n{i}", digest) for i, digest in enumerate(digests)]
    conditions: list[Expression] = [
        call("eq", BOOLEAN, column("k"), Column(TEXT, name=f"n{i}.k")) for i in range(len(digests))
    ]
    asked = priced(1, asks=(COUNT,), source=inner_join([table, *others], conditions, lambda *_: False))
    if named:
        assert len(archive(ledger).mark(asked)) == 32
    else:
        with pytest.raises(InternalError, match="before what it reads was named"):
            archive(ledger).mark(asked)
