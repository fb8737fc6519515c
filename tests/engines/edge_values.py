"""Values and forms on which engines are likely to differ: next to powers of two, halves, odd letters, old moments."""

from __future__ import annotations

from itertools import chain

_TWOS = tuple(
    chain.from_iterable(
        (f"{sign}{2**n}", f"{sign}{2**n - 0.5}", f"{sign}{2**n + 0.5}")
        for n in (7, 8, 15, 31, 32)
        for sign in ("", "-")
    )
)
VALUES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127", "3"),
    "SMALLINT": ("-32768", "32767", "128", "-129"),
    "INTEGER": ("-2147483648", "2147483647", "55296", "12", "29", "32768", "2024"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807", "2147483648", "-2147483649", "-1", "1", "1700000000123",
               "9007199254740993", "-62135596800000", "253402300799999"),
    "DECIMAL(9,2)": ("-9999999.99", "9999999.99", "127.50", "-128.50", "127.49", "0.05", "2.45", "-0.50", "1.50"),
    "DECIMAL(18,3)": ("-999999999999999.999", "999999999999999.999", "2147483647.500", "2147483647.499", "0.5", "32767.5",
                      "-2147483648.5"),
    "DECIMAL(38,10)": ("9223372036854775807.5", "9223372036854775807.4999999999", "-9223372036854775808.5",
                       "9999999999999999999999999999.9999999999"),
    "DECIMAL(38,0)": ("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    "FLOAT": ("3.4028235e38", "9223372036854775808", "-9223372036854775808", "9223371487098961920", "2147483648", "2147483520",
              "-2147483648", "32767.5", "127.5", "-128.5", "1e-45", "-0.0", "0.1", "16777217"),
    "DOUBLE": (*_TWOS, "2147483647.4999998", "-2147483648.5000005", "9223372036854775808", "-9223372036854775808",
               "9223372036854774784", "-9223372036854777856", "18446744073709551616", "1e19", "1e38", "-1e38", "1.7014118346046923e38",
               "1e300", "-1e300", "5e-324", "-0.0", "0.5", "1", "-1", "1.5", "0.49999999999999994", "4503599627370497.5",
               "9007199254740993", "1e15", "123456789012345.67", "1e-7", "2.675", "1.005", "709.9", "-745.2"),
    "VARCHAR": ("ß", "ẞ", "İ", "ı", "ŉ", "ǅ", "ǰ", "ΑΣ", "Σ", "ς", "ﬁ", "ΐ", "ᾳ", "K", "ſ", "straße", "STRASSE", "İstanbul", "é",
                "e\u0301", "𐐨𝄞x", "Ა", "\t x\n", "\u00a0x\u3000", "true", "-1", "a\\b", "%", "_", "\\", "-", "--", "a-", "aXab"),
    "DATE": ("0001-01-01", "9999-12-31", "1582-10-10", "1582-10-15", "1900-02-28", "1970-01-01", "2020-12-31", "2024-03-31", "2000-01-03"),
    "TIMESTAMP": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.0005", "1969-12-31 23:59:59.000499",
                  "1970-01-01 00:00:00.0005", "1970-01-01 00:00:00.0015", "2024-02-29 12:34:56.789501", "1582-10-10 01:02:03",
                  "1969-07-20 20:17:40.123456", "2024-12-30 00:00:00"),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-01 00:00:00+00", "1969-12-31 23:59:59.0005+00", "1900-01-01 00:00:00.5+00"),
}  # fmt: skip
"""By DuckDB's names of types; all engines store all of them."""

FORMS = (
    "round(a, 1)", "round(a, 3)", "round(a, -3)", "round(a, -7)", "round(a, -8)", "trunc(a, 3)", "trunc(a, -7)",
    "round_even(a, 3)", "round_even(a, -7)", "CAST(a AS DECIMAL(9, 2))", "CAST(a AS DECIMAL(4, 1))", "CAST(a AS DECIMAL(18, 0))",
    "CAST(a AS DECIMAL(18, 9))", "CAST(a AS DECIMAL(20, 0))", "CAST(a AS DECIMAL(3, 3))", "a // 0.5", "a % 0.3", "a % -7", "a // -7",
    "7 % a", "power(a, 0.5)", "power(a, -2)", "power(a, 1e10)", "power(1, a)", "power(-1, a)", "power(a, 'nan'::DOUBLE)",
    "greatest(a, 0.0)", "nullif(a, 0.0)", "a = -0.0", "width_bucket(a, -5, 5, 3)", "a - b * 2", "CAST(a AS BIGINT) % 10",
    "CAST(a AS INTEGER) // 10", "left(a, 0)", "left(a, 100)", "left(a, -100)", "right(a, 0)", "right(a, 100)", "right(a, -100)",
    "substring(a, 1, 0)", "substring(a, -1)", "substring(a, 5, 2)", "substring(a, -100, 99)", "substring(a, 100)",
    "split_part(a, '-', 2)", "split_part(a, '-', -2)", "split_part(a, 'ab', 1)", "split_part(a, '-', 100)", "lpad(a, 3, 'é𝄞')",
    "rpad(a, 3, 'é𝄞')", "translate(a, 'aa', 'xy')", "translate(a, '', 'x')", "replace(a, '', 'x')", "replace(a, 'aa', 'a')", "strpos(a, '')",
    "contains(a, '')", "starts_with(a, '')", "trim(a, '')", "trim(a, 'é ')", "ltrim(a, '-')", "a LIKE ''", "a LIKE '%'", "a LIKE '_'",
    "a ILIKE 'İ%'", "a ILIKE 'ß'", "a ILIKE 'ẞ'", "a ILIKE '%σ'", "a ILIKE '%Σ'", "a ILIKE 'k'", "a ILIKE 's'", "a ILIKE 'STRASSE'",
    "a ILIKE 'i%'", "a ILIKE '_'", "a ILIKE '__'", "upper(a) = lower(a)", "lower(upper(a))", "length(upper(a))", "concat_ws('', a, b)",
    "time_bucket(INTERVAL 1 DAY, a)", "time_bucket(INTERVAL 3 HOUR, a)", "time_bucket(INTERVAL 100 MILLISECOND, a)",
    "a - INTERVAL 13 MONTH", "a + INTERVAL 1 MONTH", "a + INTERVAL 1500 MILLISECOND", "make_date(a, b, 31)", "make_date(a, 2, 30)",
    "strftime(a, '%H:%M:%S.%f')", "strftime(a, '%j %d')", "epoch_ms(a) // 1000", "epoch_us(a) % 1000", "hex(a)", "least(a, b) = a",
)  # fmt: skip
"""Beside the forms that the table of functions shows: other constants, and letters whose cases are not one to one."""
