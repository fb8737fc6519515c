"""Every mistake in a policy: the key with its line, the reason, the fix."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import load_policy, parse_policy

TOP = "dataset: d\nbudget: {epsilon: 1, delta: 1e-6}\n"
COLUMN = "tables:\n  t:\n    unit: u\n    columns:\n      a: "


def mistake(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_policy(dedent(text), name="p.yaml")
    return caught.value


def check(text: str, place: str, reason: str, fix: str) -> None:
    """Exactly one mistake, with this key, reason and fix."""
    error = mistake(text)
    assert error.message.startswith(f"p.yaml: {place}: "), error.message
    assert reason in error.message
    assert error.hint is not None
    assert fix in error.hint
    assert "\n" not in error.message


@pytest.mark.parametrize(
    ("spec", "key", "reason", "fix"),
    [
        ("{type: text, min: 0, max: 3}", ".type", "a text column has no min and max", "write the type of the bounds"),
        ("{min: 5, max: 3}", ".max", "max = 3 is below min = 5", "swap min and max"),
        ("{min: 2020-01-01, max: 3}", ".max", "min is a date and max is a number", "type of the column"),
        (
            "{min: 2020-01-01, max: 2020-01-02 00:00:00}",
            ".max",
            "date and max is a timestamp",
            "type of the col",
        ),
        ("{min: 0, values: [1]}", ".values", "either values or min, not both", "keep `values`"),
        ("{values: []}", ".values", "the list of values is empty", "list the values"),
        ("{values: [a, b, a]}", ".values.2", "'a' is listed twice", "once"),
        ("{values: [a, null]}", ".values.1", "NULL is not listed", "`nulls: false` forbids"),
        ("{values: [a, 1]}", ".values", "mixed types: number, text", "in quotes"),
        ("{values: [true, 1]}", ".values", "mixed types: boolean, number", "YAML reads yes, no"),
        ("{values: [01234, 10001]}", ".values", "mixed types: number, text", "in quotes"),
        ("{values: [0.5]}", ".values.0", "0.5 cannot be listed", "min and max"),
        ("{values: [[1]]}", ".values.0", "[1] cannot be listed", "texts in quotes"),
        ("{values: north}", ".values", "'north' is not a list of values", "[north, south]"),
        ("{values: [No]}", ".values.0", "YAML reads No as false", "write 'No' in quotes"),
        ("{min: low}", ".min", "'low' is not a bound", "`values` instead"),
        ("{min: true}", ".min", "true is not a bound", "a number, or a date"),
        ("{max: .inf}", ".max", "not a finite number", "finite"),
        ("{max: .nan}", ".max", "not a finite number", "finite"),
        (f"{{max: 1{'0' * 301}}}", ".max", "is out of range", "between"),
        (f"{{min: -1{'0' * 301}}}", ".min", "is out of range", "between"),
        (f"{{values: [1, 1{'0' * 301}]}}", ".values.1", "is out of range", "between"),
        ("{max: 2020-13-01}", ".max", "2020-13-01 cannot be read", "in quotes"),
        ("{nulls: 0}", ".nulls", "0 is neither true nor false", "write true or false"),
        ("{maxx: 3}", ".maxx", "unknown key", "did you mean `max`?"),
        ("{zebra: 3}", ".zebra", "unknown key", "known here: min, max, values, bounds, nulls"),
        ("{values: {from: 5}}", ".values.from", "5 is not a name", "{from: supplier.s_suppkey}"),
        ("{values: {from: nowhere}}", ".values.from", "'nowhere' is not table.column", "{from: supplier.s_suppkey}"),
        ("{values: {from: nowhere.id}}", ".values", "there is no table nowhere", "name one of: t"),
        ("{values: {from: t.a}}", ".values", "t is private: its values are secrets", "refer to a public table"),
        ("7", "", "must be a mapping of keys, not 7", "key: value"),
        ("!secret 7", "", "the tag !secret is not known", "plain value"),
    ],
)
def test_mistakes_in_a_column(spec: str, key: str, reason: str, fix: str) -> None:
    check(TOP + COLUMN + spec, f"line 7: tables.t.columns.a{key}", reason, fix)


@pytest.mark.parametrize(
    ("spec", "key", "reason", "fix"),
    [
        ("{}", "", "neither a unit nor `public: true`", "`unit: row`"),
        ("", "", "neither a unit nor `public: true`", "`public: true`"),
        ("{public: false}", "", "neither a unit nor `public: true`", "add `unit: <column>`"),
        ("{columns: {a: {}}}", "", "neither a unit nor `public: true`", "add `unit: <column>`"),
        ("{unit: u, public: true}", ".public", "a public table has no unit", "delete `public: true`"),
        ("{public: true, unique: true}", ".unique", "unique applies to units", "delete `unique`"),
        ("{public: true, max_rows_per_unit: 3}", ".max_rows_per_unit", "applies to units", "delete"),
        ("{unit: row, unique: true}", ".unique", "each row is a unit of its own", "name the unit column"),
        ("{unit: Row, max_rows_per_unit: 3}", ".max_rows_per_unit", "each row is a unit", "delete"),
        ("{unit: row, columns: {ROW: {}}}", ".unit", "also has a column named row", "rename it"),
        ("{unit: u, max_rows_per_unit: 0}", ".max_rows_per_unit", "must be at least 1", "such as 10"),
        (
            "{unit: u, max_groups_per_unit: 1.5}",
            ".max_groups_per_unit",
            "1.5 is not a whole number",
            "such as 10",
        ),
        ("{unit: u, max_groups_per_unit: true}", ".max_groups_per_unit", "true is not a whole", "such as 10"),
        ("{unit: 5}", ".unit", "5 is not a unit", "{customer_id: customers.id}"),
        ("{unit: {a: b.c, d: e.f}}", ".unit", "is not a unit", "{customer_id: customers.id}"),
        ("{unit: {a: b}}", ".unit", "'b' is not table.column", "{customer_id: customers.id}"),
        ("{unit: ''}", ".unit", "'' is not a usable name", "printable"),
        ("{unit: u, column: {}}", ".column", "unknown key", "did you mean `columns`?"),
        ("{unit: u, columns: [a]}", ".columns", "must be a mapping of keys, not ['a']", "key: value"),
        ("{unit: u, columns: {a: {}, A: {}}}", ".columns.A", "A and a are the same name", "keep one"),
        ("{unit: u, columns: {a: {}, a: {}}}", ".columns.a", "the key appears twice", "keep one of the two"),
        (
            "{unit: u, unique: 'yes'}",
            ".unique",
            "'yes' is not a key",
            "write true (each unit has one row), the columns",
        ),
        ("{unit: {a: nowhere.id}}", ".unit", "there is no table nowhere", "declare it, or name one of: t"),
        ("{unit: {a: t.id}}", ".unit", "leads back to itself", "name its unit column"),
    ],
)
def test_mistakes_in_a_table(spec: str, key: str, reason: str, fix: str) -> None:
    check(f"{TOP}tables:\n  t: {spec}", f"line 4: tables.t{key}", reason, fix)


@pytest.mark.parametrize(
    ("parent", "reason", "fix"),
    [
        ("{public: true}", "parent is public", "a private table that names a unit column"),
        ("{unit: row}", "parent is `unit: row`", "a private table that names a unit column"),
        ("{unit: home}", "parent.id is neither the unit column", "add `id: {}` to its columns"),
        ("{unit: home, columns: {a: {}}}", "parent.id is neither the unit column", "refer to parent.home"),
    ],
)
def test_a_foreign_key_must_lead_to_an_owner(parent: str, reason: str, fix: str) -> None:
    text = f"{TOP}tables:\n  parent: {parent}\n  child: {{unit: {{parent_id: parent.id}}}}"
    check(text, "line 5: tables.child.unit", reason, fix)


def test_a_circle_of_foreign_keys_is_told_of_every_table_in_it() -> None:
    text = f"{TOP}tables:\n  a: {{unit: {{x: b.y}}}}\n  b: {{unit: {{y: a.x}}}}"
    error = mistake(text)
    assert "1. line 4: tables.a.unit: the path a.x → b.y leads back to itself" in error.message
    assert "2. line 5: tables.b.unit: the path b.y → a.x leads back to itself" in error.message


@pytest.mark.parametrize(
    ("section", "key", "reason", "fix"),
    [
        ("limits: {epsilon: 2}", "limits.epsilon", "2 is above the dataset's cap, 1", "write 1 or less"),
        ("limits: {delta: 1e-5}", "limits.delta", "above the dataset's cap", "or less"),
        (
            "defaults: {epsilon: 3}",
            "defaults.epsilon",
            "3 is above the limit of one query, 1",
            "write 1 or less",
        ),
        ("defaults: {delta: 1e-3}", "defaults.delta", "above the limit of one query", "or less"),
        ("defaults: {mechanism: laplas}", "defaults.mechanism", "'laplas' is not a mechanism", "laplace?"),
        ("defaults: {mechanism: 7}", "defaults.mechanism", "7 is not a mechanism", "write auto, laplace or"),
        (
            "defaults: {max_rows_per_units: 3}",
            "defaults.max_rows_per_units",
            "unknown",
            "`max_rows_per_unit`?",
        ),
        (
            "limits: {max_public_keys: many}",
            "limits.max_public_keys",
            "'many' is not a whole number",
            "such as",
        ),
        ("replay: maybe", "replay", "'maybe' is neither true nor false", "{keep: 30 days}"),
        ("replay: {keep: 30}", "replay.keep", "30 is not a length of time", "write 12 hours, 30 days"),
        ("replay: {keep: a while}", "replay.keep", "'a while' is not a length of time", "or forever"),
        ("replay: {keep: 0 days}", "replay.keep", "at least 1 hour", "30 days"),
        ("replay: {keep: 99999999 weeks}", "replay.keep", "at most 100 years", "forever"),
        ("replay: {keeps: 3 days}", "replay.keeps", "unknown", "`keep`?"),
        ("limit: {epsilon: 1}", "limit", "unknown key", "did you mean `limits`?"),
        ("limits: 3", "limits", "must be a mapping of keys, not 3", "key: value"),
    ],
)
def test_mistakes_in_limits_and_defaults(section: str, key: str, reason: str, fix: str) -> None:
    check(f"{TOP}{section}\ntables: {{t: {{unit: u}}}}", f"line 3: {key}", reason, fix)


@pytest.mark.parametrize(
    ("budget", "key", "reason", "fix"),
    [
        ("{epsilon: 0}", ".epsilon", "greater than 0, not 0", "such as 0.5"),
        ("{epsilon: -1}", ".epsilon", "greater than 0, not -1", "such as 0.5"),
        ("{epsilon: .nan}", ".epsilon", "not a finite number", "finite"),
        ("{epsilon: .inf}", ".epsilon", "not a finite number", "finite"),
        ("{epsilon: true}", ".epsilon", "true is not a number", "0.5 or 1e-6"),
        ("{epsilon: much}", ".epsilon", "'much' is not a number", "0.5 or 1e-6"),
        ("{epsilon: 1e400}", ".epsilon", "out of range", "1e-300"),
        ("{delta: 1e-6}", ".epsilon", "is missing", "add `epsilon`"),
        ("{epsilon: 1, delta: 1}", ".delta", "probability in [0, 1), not 1", "1e-6"),
        ("{epsilon: 1, delta: -0.1}", ".delta", "probability in [0, 1)", "1e-6"),
        ("{epsilon: 1, delta: 0.02}", ".delta", "too large to protect anyone", "far below one over"),
        (
            "{epsilon: 1, analysts: {a: {epsilon: 2}}}",
            ".analysts.a.epsilon",
            "2 is above the dataset's cap, 1",
            "1",
        ),
        (
            "{epsilon: 1, analysts: {a: {delta: 1e-9}}}",
            ".analysts.a.delta",
            "above the dataset's cap, 0",
            "write 0",
        ),
        ("{epsilon: 1, analysts: {a: {epsilon: 0}}}", ".analysts.a.epsilon", "greater than 0", "such as 0.5"),
        (
            "{epsilon: 1, analysts: {a: {tables: [tt]}}}",
            ".analysts.a.tables.0",
            "no table tt",
            "did you mean t?",
        ),
        (
            "{epsilon: 1, analysts: {a: {tables: t}}}",
            ".analysts.a.tables",
            "not a list of tables",
            "[customers",
        ),
        ("{epsilon: 1, analysts: {a: {}, A: {}}}", ".analysts.A", "A and a are the same name", "keep one"),
        ("{epsilon: 1, analysts: {a: {epsilom: 1}}}", ".analysts.a.epsilom", "unknown key", "`epsilon`?"),
        ("{epsilon: 1, epsilon: 2}", ".epsilon", "the key appears twice, on lines 2 and 2", "keep one"),
        ("5", "", "must be a mapping of keys, not 5", "key: value"),
    ],
)
def test_mistakes_in_the_budget(budget: str, key: str, reason: str, fix: str) -> None:
    check(f"dataset: d\nbudget: {budget}\ntables: {{t: {{unit: u}}}}", f"line 2: budget{key}", reason, fix)


def test_gaussian_noise_needs_a_delta() -> None:
    text = "dataset: d\nbudget: {epsilon: 1}\ndefaults: {mechanism: gaussian}\ntables: {t: {unit: u}}"
    check(text, "line 3: defaults.mechanism", "budget.delta is 0", "set budget.delta")


def test_missing_sections_are_named_together() -> None:
    error = mistake("replay: true")
    for key in ("dataset", "budget", "tables"):
        assert f"{key}: is missing" in error.message
        assert f"add `{key}:" in str(error.hint)


def test_a_dataset_needs_a_name() -> None:
    check(f"{TOP}tables: {{}}".replace("dataset: d", "dataset: 2024"), "line 1: dataset", "not a name", "quotes")
    check(
        f"{TOP}tables: {{}}".replace("dataset: d", "dataset: ''"),
        "line 1: dataset",
        "not a usable name",
        "name",
    )


def test_names_keep_their_text_whatever_yaml_makes_of_them() -> None:
    policy = parse_policy(f"{TOP}tables: {{t: {{unit: u, columns: {{no: {{}}, on: {{}}, 2024: {{}}, null: {{}}}}}}}}")
    assert policy.tables["t"].columns is not None
    assert list(policy.tables["t"].columns) == ["no", "on", "2024", "null"]


def test_clock_times_and_leading_zeros_are_texts() -> None:
    policy = parse_policy(f"{TOP}{COLUMN}{{values: [12:30, 010, 007]}}")
    assert policy.tables["t"].columns is not None
    assert policy.tables["t"].columns["a"].values == ("12:30", "010", "007")


@pytest.mark.parametrize("number", ["1e-6", "1E-6", "1.0e-6", "0.000001", "'1e-6'", ".000001"])
def test_delta_may_be_written_in_any_way(number: str) -> None:
    policy = parse_policy(f"dataset: d\nbudget: {{epsilon: 1, delta: {number}}}\ntables: {{}}")
    assert policy.budget.delta * 1_000_000 == 1


def test_all_mistakes_are_listed_at_once_in_the_order_of_lines() -> None:
    error = mistake(
        """\
        dataset: shop
        budget: {epsilon: -1, analysts: {ana: {tables: [order]}}}
        limits: {epsilon: 2, delta: 0.5}
        tables:
          customers:
            unit: id
            columns: {age: {min: 18, maxx: 11}, AGE: {}, ok: {values: [yes]}}
          orders:
            unit: {customer_id: customer.id}
            unique: maybe
          stores: {}
        """
    )
    lines = error.message.splitlines()
    assert lines[0] == "p.yaml: 9 mistakes"
    found = [": ".join(line.split(". ", 1)[1].split(": ")[:2]) for line in lines[1:]]
    assert sorted(found) == sorted(
        [
            "line 2: budget.epsilon",
            "line 2: budget.analysts.ana.tables.0",
            "line 3: limits.delta",
            "line 7: tables.customers.columns.age.maxx",
            "line 7: tables.customers.columns.AGE",
            "line 7: tables.customers.columns.ok.values.0",
            "line 9: tables.orders.unit",
            "line 10: tables.orders.unique",
            "line 11: tables.stores",
        ]
    )
    numbers = [int(line.split("line ")[1].split(":")[0]) for line in lines[1:]]
    assert numbers == sorted(numbers)
    assert len(str(error.hint).strip().splitlines()) == 9


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dataset: [", "line 1: the policy: this is not YAML"),
        ("a: 1\n b: 2", "line 2: the policy: this is not YAML"),
        ("- dataset", "a policy must be a mapping of keys"),
        ("", "a policy must be a mapping of keys"),
        ("just text", "a policy must be a mapping of keys"),
        ("dataset: d\n---\ndataset: e", "this is not YAML"),
        ("a: \x07", "this is not YAML"),
    ],
)
def test_what_is_no_policy_at_all(text: str, reason: str) -> None:
    error = mistake(text)
    assert reason in error.message
    assert error.hint


def test_an_alias_inside_itself_ends() -> None:
    error = mistake(f"{TOP}tables: &t {{a: *t}}")
    assert "an alias refers to the mapping or list that contains it" in error.message


def test_aliases_are_otherwise_welcome() -> None:
    policy = parse_policy(f"{TOP}tables: {{a: &spec {{unit: u}}, b: *spec}}")
    assert policy.tables["a"] == policy.tables["b"]


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"{TOP}tables: {{t: {{}}}}", encoding="utf-8")
    with pytest.raises(PolicyError, match="neither a unit") as caught:
        load_policy(path)
    assert caught.value.message.startswith(f"{path}: line 3: tables.t: ")
    path.write_text(f"{TOP}tables: {{t: {{unit: u}}}}", encoding="utf-8")
    assert load_policy(str(path)).dataset == "d"


def test_a_missing_or_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no policy file .*nowhere\.yaml") as caught:
        load_policy(tmp_path / "nowhere.yaml")
    assert "dpsql init" in str(caught.value.hint)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("dataset: Zürich".encode("latin-1"))
    with pytest.raises(PolicyError, match="it is not UTF-8 text"):
        load_policy(latin)


def test_a_mapping_gets_the_same_errors_without_lines() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy({"dataset": "d", "budget": {"epsilon": float("nan")}, "tables": {"t": {"unit": "u"}}})
    assert caught.value.message == "the policy: budget.epsilon: nan is not a finite number"
    with pytest.raises(PolicyError, match="5 is not a name"):
        load_policy({"dataset": "d", "budget": {"epsilon": 1}, "tables": {5: {"unit": "u"}}})  # type: ignore[dict-item]
