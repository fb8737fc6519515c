"""What may be asked of an empty database: the relations and functions that clients' catalogue queries need.

**Theorem.** Text that `check` lets pass calls no function and reads no catalogue relation that is not listed here.
**Proof.** The text is cut as PostgreSQL cuts it: ASCII white space, strings, quoted and bare names; what could be read
in two ways (`U&"…"`, nested comments, strings in pieces, a stray backslash) is refused. A function is called by its
name before a parenthesis, so each such name is listed, or is a word of the grammar, or names columns (`AS t(a)`,
`WITH t(a)`), where PostgreSQL takes no call. All relations of `pg_catalog` begin with `pg_`, so each such name is
listed, or a label. **Requires** nothing of the clients; and should this fail, `privileges` has taken the same rights
away in the database itself, of which each analyst has one. **Checked by** `tests/server/test_catalogue.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.wire import ErrorResponse

MOST_TEXT = 32_000
FUNCTIONS = frozenset(
    # about the catalogue
    """
    format_type obj_description col_description shobj_description pg_describe_object pg_identify_object
    pg_get_constraintdef pg_get_expr pg_get_function_arg_default pg_get_function_arguments pg_get_functiondef
    pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody pg_get_indexdef pg_get_keywords
    pg_get_partition_constraintdef pg_get_partkeydef pg_get_publication_tables pg_get_replica_identity_index
    pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_statisticsobjdef_columns
    pg_get_statisticsobjdef_expressions pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_options_to_table
    pg_collation_is_visible pg_conversion_is_visible pg_function_is_visible pg_opclass_is_visible pg_operator_is_visible
    pg_opfamily_is_visible pg_statistics_obj_is_visible pg_table_is_visible pg_ts_config_is_visible
    pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible
    pg_relation_is_publishable pg_relation_is_updatable pg_column_is_updatable pg_index_column_has_property
    pg_index_has_property pg_indexam_has_property pg_partition_ancestors pg_partition_root pg_partition_tree
    pg_relation_size pg_table_size pg_indexes_size pg_total_relation_size pg_database_size pg_tablespace_size
    pg_tablespace_location pg_relation_filenode pg_size_pretty pg_typeof pg_collation_for pg_column_size
    pg_char_to_encoding pg_encoding_to_char pg_encoding_max_length pg_client_encoding getdatabaseencoding
    pg_show_all_settings pg_available_extensions pg_available_extension_versions pg_timezone_names pg_timezone_abbrevs
    pg_is_in_recovery pg_is_wal_replay_paused pg_last_wal_receive_lsn pg_last_wal_replay_lsn
    pg_last_xact_replay_timestamp pg_my_temp_schema pg_is_other_temp_schema pg_sequence_last_value pg_mcv_list_items
    pg_postmaster_start_time pg_conf_load_time pg_backend_pid txid_current nameconcatoid oidvectortypes
    has_any_column_privilege has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege
    has_function_privilege has_language_privilege has_schema_privilege has_sequence_privilege has_server_privilege
    has_table_privilege has_tablespace_privilege has_type_privilege pg_has_role row_security_active acldefault
    aclexplode makeaclitem current_database current_catalog current_schema current_schemas current_user session_user
    current_setting set_config version inet_client_addr inet_client_port inet_server_addr inet_server_port
    to_regclass to_regcollation to_regnamespace to_regoper to_regproc to_regprocedure to_regrole to_regtype
    _pg_expandarray _pg_index_position _pg_truetypid _pg_truetypmod _pg_char_max_length _pg_char_octet_length
    _pg_numeric_precision _pg_numeric_precision_radix _pg_numeric_scale _pg_datetime_precision _pg_interval_type
    pg_stat_get_numscans pg_stat_get_lastscan pg_stat_get_tuples_returned pg_stat_get_tuples_fetched
    pg_stat_get_tuples_inserted pg_stat_get_tuples_updated pg_stat_get_tuples_deleted pg_stat_get_tuples_hot_updated
    pg_stat_get_tuples_newpage_updated pg_stat_get_live_tuples pg_stat_get_dead_tuples pg_stat_get_mod_since_analyze
    pg_stat_get_ins_since_vacuum pg_stat_get_last_vacuum_time pg_stat_get_last_autovacuum_time
    pg_stat_get_last_analyze_time pg_stat_get_last_autoanalyze_time pg_stat_get_vacuum_count
    pg_stat_get_autovacuum_count pg_stat_get_analyze_count pg_stat_get_autoanalyze_count
    """.split()  # noqa: SIM905
    # numbers, text, time
    + """
    abs ceil ceiling floor round trunc mod power pow sqrt exp ln log sign greatest least div width_bucket random
    lower upper initcap length char_length character_length octet_length bit_length ascii chr concat concat_ws format
    left right substr substring position strpos split_part replace translate reverse trim btrim ltrim rtrim overlay
    starts_with quote_ident quote_literal quote_nullable md5 encode decode convert_from convert_to to_hex parse_ident
    regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_like regexp_substr
    like_escape similar_to_escape similar_escape to_char to_date to_number to_timestamp
    now age clock_timestamp statement_timestamp transaction_timestamp timeofday extract date_part date_trunc timezone
    make_date make_time make_timestamp make_interval justify_days justify_hours justify_interval isfinite overlaps
    current_date current_time current_timestamp localtime localtimestamp
    """.split()  # noqa: SIM905
    # arrays, JSON, aggregates and windows
    + """
    array array_agg array_append array_cat array_dims array_length array_lower array_ndims array_position
    array_positions array_prepend array_remove array_replace array_to_string array_upper cardinality string_to_array
    string_to_table unnest generate_series generate_subscripts enum_range enum_first enum_last row coalesce nullif cast
    json_agg json_array_elements json_array_elements_text json_array_length json_build_array json_build_object
    json_each json_each_text json_object json_object_agg json_object_keys json_typeof jsonb_agg jsonb_array_elements
    jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_object jsonb_object_agg jsonb_object_keys jsonb_pretty jsonb_typeof row_to_json to_json to_jsonb
    array_to_json xmlagg xmlelement xmlforest
    count sum avg min max any_value bool_and bool_or every bit_and bit_or string_agg stddev variance mode
    percentile_cont percentile_disc row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value
    last_value nth_value num_nonnulls num_nulls bool int2 int4 int8 float4 float8 numeric text name oid
    """.split()  # noqa: SIM905
)
"""By name. None of them tells of another session, takes a lock, writes, sleeps or makes long text from short."""

RELATIONS = frozenset(
    """
    pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute pg_auth_members pg_available_extension_versions
    pg_available_extensions pg_cast pg_class pg_collation pg_constraint pg_conversion pg_database pg_db_role_setting
    pg_default_acl pg_depend pg_description pg_enum pg_event_trigger pg_extension pg_foreign_data_wrapper
    pg_foreign_server pg_foreign_table pg_group pg_index pg_indexes pg_inherits pg_init_privs pg_language
    pg_largeobject_metadata pg_matviews pg_namespace pg_opclass pg_operator pg_opfamily pg_partitioned_table pg_policies
    pg_policy pg_proc pg_publication pg_publication_namespace pg_publication_rel pg_publication_tables pg_range
    pg_rewrite pg_roles pg_rules pg_seclabel pg_seclabels pg_sequence pg_sequences pg_settings pg_shdepend
    pg_shdescription pg_shseclabel pg_statistic_ext pg_stats pg_stats_ext pg_stat_all_tables pg_stat_user_tables
    pg_subscription pg_subscription_rel pg_tables pg_tablespace pg_timezone_abbrevs pg_timezone_names pg_transform
    pg_trigger pg_ts_config pg_ts_config_map pg_ts_dict pg_ts_parser pg_ts_template pg_type pg_user pg_user_mappings
    pg_views
    """.split()  # noqa: SIM905
)
"""Of `pg_catalog`. Planner statistics and counters of tables are there, and always empty: nothing is counted."""

SETTINGS = frozenset({
    "application_name", "bytea_output", "client_encoding", "client_min_messages", "datestyle", "extra_float_digits",
    "intervalstyle", "jit", "search_path", "timezone",
})  # fmt: skip
"""What `set_config` may set: nothing that limits a statement."""

_OTHER = frozenset({"pg_catalog", "pg_toast", "pg_temp", "pg_node_tree", "pg_lsn", "pg_ndistinct", "pg_dependencies"})
_GRAMMAR = frozenset(
    """
    all and any as between by case distinct else except exists filter from group grouping having ilike in intersect is
    join lateral like limit materialized not notnull offset on operator or order over partition recursive returning rows
    select sets similar some symmetric tablesample then to union using values when where window with within
    bit char character decimal dec interval nchar national precision time timestamp varchar varying
    """.split()  # noqa: SIM905
)
_NUMBERED = re.compile(r"_\d+$")
"""How no relation of PostgreSQL ends."""
_TOKEN = re.compile(
    r"""(?P<gap>[ \t\n\r\f\v]+ | --[^\n\r]* | /\*(?:(?!/\*|\*/).)*\*/)
    | (?P<unclear>[uU]&['"] | /\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | \$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<name>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
    | (?P<value>\$[0-9]+ | [0-9][0-9A-Za-z_]*)
    | (?P<sign>[-()\[\]{},:.+*/<>=~!@\#%^&|`?])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class _Token(NamedTuple):
    kind: str
    text: str


@lru_cache(512)
def check(sql: str) -> None:
    """Refuse what is not a question about the catalogue."""
    if len(sql) > MOST_TEXT:
        raise _refusal(f"a query about the catalogue may have at most {MOST_TEXT:,} characters")
    end = _Token("sign", ";")
    tokens = [end, *_tokens(sql), end, end, end]
    for before, token, after, *inside in zip(tokens, tokens[1:], tokens[2:], tokens[3:], tokens[4:], strict=False):
        if before.kind == token.kind == "string":
            raise _refusal("a string must be written as one literal")  # the second may be read in the way of the first
        if token.kind not in ("name", "quoted"):
            continue
        if after.text == "(" and after.kind == "sign":
            _check_call(before, token, inside)
        elif token.text.startswith("pg_") and not _known(before, token):
            raise _refusal(f"the catalogue does not show {token.text}")


def _tokens(sql: str) -> Iterator[_Token]:
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None or found.lastgroup == "unclear":
            raise _refusal(f"this cannot be parsed as a catalogue query: {sql[at : at + 20]}")
        at, kind, text = found.end(), found.lastgroup or "", found.group()
        if kind == "quoted":
            yield _Token(kind, text[1:-1].replace('""', '"'))
        elif kind != "gap":
            yield _Token("string" if kind == "tag" else kind, text.lower() if kind == "name" else text)


def _known(before: _Token, name: _Token) -> bool:
    """Whether it may be read as a relation, or is none but a label, such as those that SQLAlchemy numbers."""
    label = before == _Token("name", "as") or _NUMBERED.search(name.text) is not None
    return label or name.text in RELATIONS or name.text in _OTHER


def _check_call(before: _Token, name: _Token, inside: list[_Token]) -> None:
    """A function by its name, and the first words after its parenthesis: a setting is named by one string alone."""
    setting, comma = inside
    if name.text == "set_config" and (setting.text.strip("'").lower() not in SETTINGS or comma.text != ","):
        raise _refusal("this setting cannot be set in the catalogue")
    if name.text in FUNCTIONS or (name.kind == "name" and name.text in _GRAMMAR):
        return
    if before.kind == "name" and before.text in ("as", "with", "recursive"):
        return  # columns of an alias, or a type
    raise _refusal(f"the catalogue has no function {name.text}")


def _refusal(what: str) -> StatementError:
    return StatementError(
        ErrorResponse(what, "42501", "the catalogue answers queries about tables, columns and types only")
    )


def privileges() -> str:
    """SQL that leaves the same functions and relations to an analyst, and replaces two that tell of other sessions.

    What operators, casts, types and aggregates are made of stays: these have no side effects.
    """
    return f"""
DO $do$ DECLARE each regprocedure; part regclass; BEGIN
  FOR each IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
      AND p.proname <> ALL ({_listed(FUNCTIONS)})
      AND p.oid NOT IN (SELECT oprcode FROM pg_operator) AND p.oid NOT IN (SELECT castfunc FROM pg_cast)
      AND p.oid NOT IN (SELECT amproc FROM pg_amproc)
      AND p.oid NOT IN (
          SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout]) FROM pg_type)
      AND p.oid NOT IN (SELECT unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
          aggmtransfn, aggminvtransfn, aggmfinalfn]) FROM pg_aggregate)
  LOOP EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', each); END LOOP;
  FOR part IN SELECT oid FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
      AND relname <> ALL ({_listed(RELATIONS)})
  LOOP EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', part); END LOOP;
END $do$;

CREATE OR REPLACE FUNCTION pg_catalog.pg_backend_pid() RETURNS integer LANGUAGE sql STABLE AS 'SELECT 1';

CREATE OR REPLACE FUNCTION pg_catalog.txid_current() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT 1000::bigint';

"""


def _listed(names: frozenset[str]) -> str:
    return "ARRAY[" + ", ".join(f"'{name}'" for name in sorted(names)) + "]"
