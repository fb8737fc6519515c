# private rows
SELECT * FROM people
SELECT note FROM people
SELECT id, age FROM people WHERE id = 7340017
SELECT * FROM people LIMIT 1
SELECT * FROM orders ORDER BY amount DESC LIMIT 1
TABLE people
FROM people
FROM people SELECT note
SELECT people FROM people
SELECT p FROM people AS p
SELECT COLUMNS(*) FROM people
SELECT COLUMNS('n.*') FROM people
SELECT * EXCLUDE (age) FROM people
SELECT * REPLACE (age + 1 AS age) FROM people
SELECT DISTINCT note, id FROM people
SELECT id, count(*) FROM people GROUP BY id
SELECT person, sum(amount) FROM orders GROUP BY person
SELECT DISTINCT ON (region) * FROM people
SELECT (SELECT note FROM people LIMIT 1)
SELECT (SELECT max(secret) FROM people)
SELECT ARRAY(SELECT note FROM people)
SELECT count(*) FROM people USING SAMPLE 1
SELECT count(*) FROM people TABLESAMPLE 10%
SELECT count(*) FROM (SELECT * FROM people LIMIT 5)
SELECT count(*) FROM (SELECT * FROM people OFFSET 5)
SELECT * FROM people p WHERE EXISTS (SELECT 1 FROM orders WHERE person = p.id)
SELECT count(*) FROM people GROUP BY ALL HAVING note = 'x'
VALUES ((SELECT min(note) FROM people))
SELECT age FROM people UNION SELECT age FROM people
SELECT region, note FROM people EXCEPT SELECT 'a', 'b'
# aggregates that show a value
SELECT string_agg(note, ',') FROM people
SELECT list(note) FROM people
SELECT array_agg(id) FROM people
SELECT group_concat(note) FROM people
SELECT any_value(note) FROM people
SELECT first(note) FROM people
SELECT last(note) FROM people
SELECT arbitrary(id) FROM people
SELECT min(note) FROM people
SELECT max(note) FROM people
SELECT mode(note) FROM people
SELECT arg_max(note, age) FROM people
SELECT max_by(note, age) FROM people
SELECT min_by(note, income) FROM people
SELECT histogram(note) FROM people
SELECT map_from_entries(list((id, note))) FROM people
SELECT bit_xor(id) FROM people
SELECT bit_or(id) FROM people
SELECT product(age) FROM people
SELECT entropy(note) FROM people
SELECT approx_top_k(note, 3) FROM people
SELECT approx_quantile(age, 0.5) FROM people
SELECT reservoir_quantile(age, 0.5) FROM people
SELECT fsum(income) FROM people
SELECT kahan_sum(income) FROM people
SELECT sum(id) FROM people
SELECT sum(number) FROM orders
SELECT list_sum(list(age)) FROM people
SELECT json_group_array(note) FROM people
SELECT to_json(list(note)) FROM people
SELECT max(note, 3) FROM people
SELECT count(*) FILTER (WHERE random() < 0.5) FROM people
SELECT sum(age ORDER BY id) FROM people
SELECT list(note ORDER BY age) FROM people
# hidden columns and tables
SELECT count(secret) FROM people
SELECT count(*) FROM people WHERE secret = 'x'
SELECT count(*) FROM ghosts
SELECT count(*) FROM "ghosts"
SELECT count(*) FROM GHOSTS
SELECT count(*) FROM main.ghosts
SELECT count(*) FROM canaries.main.ghosts
SELECT count(*) FROM temp.ghosts
SELECT "SECRET" FROM people GROUP BY 1
SELECT count(people.secret) FROM people
SELECT count(*) FROM people JOIN ghosts ON people.id = ghosts.id
SELECT count(*) FROM people WHERE id IN (SELECT id FROM ghosts)
SELECT count(*) FROM people NATURAL JOIN ghosts
SELECT count(*) FROM people GROUP BY secret
SELECT count(*) FROM people ORDER BY secret
SELECT sum(length(secret)) FROM people
SELECT count(rowid) FROM people
SELECT max(rowid) FROM people
SELECT count(*) FROM people WHERE rowid = 0
SELECT people.rowid FROM people
SELECT count(*) FROM orders WHERE rowid < 10
SELECT count(ctid) FROM people
SELECT count(*) FROM people WHERE _rowid_ = 1
SELECT count(filename) FROM people
SELECT count(*) FROM _r0
SELECT count(*) FROM people AS _r0
WITH _r0 AS (SELECT 1) SELECT * FROM _r0
# files
SELECT * FROM 'people.csv'
SELECT * FROM '/etc/passwd'
SELECT * FROM "data.parquet"
SELECT count(*) FROM 'https://example.org/a.parquet'
SELECT * FROM 's3://bucket/a.parquet'
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_csv_auto('/etc/passwd')
SELECT * FROM read_parquet('*.parquet')
SELECT * FROM parquet_scan('a.parquet')
SELECT * FROM parquet_metadata('a.parquet')
SELECT * FROM read_json('a.json')
SELECT * FROM read_json_auto('a.json')
SELECT * FROM read_ndjson('a.json')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT content FROM read_text('policy.yaml')
SELECT * FROM glob('/*')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM sqlite_scan('a.db', 't')
SELECT * FROM postgres_scan('host=localhost', 'public', 't')
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM pandas_scan(1)
SELECT * FROM st_read('a.shp')
SELECT count(*) FROM people, read_text('/etc/passwd')
SELECT count(*) FROM people WHERE note IN (SELECT content FROM read_text('/etc/passwd'))
SELECT count(*) FROM people JOIN 'x.csv' ON true
# files written, databases attached
COPY people TO 'out.csv'
COPY (SELECT * FROM people) TO 'out.csv'
COPY people FROM 'in.csv'
COPY people TO STDOUT
EXPORT DATABASE 'folder'
IMPORT DATABASE 'folder'
ATTACH 'other.duckdb'
ATTACH 'other.duckdb' AS o (READ_ONLY)
ATTACH DATABASE ':memory:' AS m
ATTACH 'canaries.duckdb' AS again
DETACH canaries
USE memory
COPY FROM DATABASE canaries TO memory
INSTALL httpfs
FORCE INSTALL httpfs
LOAD httpfs
LOAD '/tmp/x.duckdb_extension'
UPDATE EXTENSIONS
CREATE SECRET s (TYPE S3, KEY_ID 'a', SECRET 'b')
CREATE PERSISTENT SECRET s (TYPE S3)
DROP SECRET s
# settings and pragmas
SET threads = 1
SET memory_limit = '100GB'
SET enable_external_access = true
SET lock_configuration = false
SET GLOBAL TimeZone = 'UTC'
SET SESSION search_path = 'main'
SET VARIABLE x = (SELECT max(note) FROM people)
SET x TO 1
SET schema = 'main'
SET dpsql.noise = off
SET dpsql.epsilon = 1e99
SET dpsql.mechanism = none
RESET threads
RESET dpsql.everything
PRAGMA table_info('people')
PRAGMA show_tables
PRAGMA database_list
PRAGMA database_size
PRAGMA storage_info('people')
PRAGMA version
PRAGMA enable_profiling
PRAGMA enable_verification
PRAGMA disable_checkpoint_on_shutdown
PRAGMA memory_limit = '1GB'
PRAGMA platform
PRAGMA user_agent
PRAGMA metadata_info
CALL pragma_table_info('people')
CALL duckdb_tables()
CALL start_ui()
SELECT getvariable('x')
SELECT current_setting('threads') FROM people
SELECT current_setting('home_directory'), count(*) FROM people
SELECT getenv('HOME'), count(*) FROM people
SELECT set_config('a', 'b', true), count(*) FROM people
# the database's own catalogue
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_columns()
SELECT * FROM duckdb_constraints()
SELECT * FROM duckdb_databases()
SELECT * FROM duckdb_functions()
SELECT * FROM duckdb_indexes()
SELECT * FROM duckdb_schemas()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_sequences()
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_temporary_files()
SELECT * FROM duckdb_types()
SELECT * FROM duckdb_variables()
SELECT * FROM duckdb_views()
SELECT * FROM duckdb_memory()
SELECT * FROM duckdb_logs()
SELECT * FROM duckdb_extensions()
SELECT * FROM duckdb_dependencies()
SELECT * FROM duckdb_optimizers()
SELECT * FROM duckdb_keywords()
SELECT * FROM pragma_table_info('people')
SELECT * FROM pragma_storage_info('people')
SELECT * FROM pragma_database_size()
SELECT * FROM pragma_show('people')
SELECT * FROM pragma_version()
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM duckdb_tables
SELECT estimated_size FROM duckdb_tables() WHERE table_name = 'people'
SELECT * FROM information_schema.tables, people
SELECT * FROM system.information_schema.tables, people
SELECT count(*) FROM people, pg_catalog.pg_class
SHOW TABLES FROM canaries
SHOW ALL TABLES
SHOW DATABASES
SHOW people
DESCRIBE people
DESCRIBE SELECT * FROM people
DESC people
SUMMARIZE people
SUMMARIZE SELECT note FROM people
SELECT * FROM (SUMMARIZE people)
SELECT * FROM (DESCRIBE people)
SELECT * FROM (SHOW people)
SELECT max FROM (SUMMARIZE people)
FROM (SUMMARIZE people) SELECT min, max
# functions that look behind the query
SELECT stats(note) FROM people
SELECT count(stats(age)) FROM people
SELECT * FROM query('SELECT * FROM people')
SELECT * FROM query_table('people')
SELECT * FROM query_table(['people', 'orders'])
SELECT count(*) FROM query_table('people')
SELECT count(*) FROM people WHERE error('stop')
SELECT count(*) FROM people WHERE CASE WHEN age > 30 THEN error(note) ELSE true END
SELECT count(error(note)) FROM people
SELECT count(sleep_ms(1000)) FROM people
SELECT count(*) FROM people WHERE sleep_ms(age) IS NULL
SELECT setseed(0.5), count(*) FROM people
SELECT count(*) FROM people WHERE random() < 0.5
SELECT count(*) FROM people WHERE setseed(0.1) IS NULL
SELECT count(uuid()) FROM people
SELECT count(gen_random_uuid()) FROM people
SELECT count(*) FROM people WHERE clock_timestamp() > TIMESTAMP '2020-01-01'
SELECT count(*) FROM people WHERE current_time IS NOT NULL
SELECT count(txid_current()) FROM people
SELECT count(nextval('seq')) FROM people
SELECT currval('seq'), count(*) FROM people
SELECT count(*) FROM people WHERE in_search_path('a', 'b')
SELECT current_database(), count(*) FROM people
SELECT current_schema(), count(*) FROM people
SELECT current_user, count(*) FROM people
SELECT version(), count(*) FROM people
SELECT pg_typeof(note), count(*) FROM people GROUP BY 1
SELECT typeof(note), count(*) FROM people GROUP BY 1
SELECT count(current_query()) FROM people
SELECT count(write_log(note)) FROM people
SELECT count(getvariable(note)) FROM people
SELECT count(json_execute_serialized_sql('x')) FROM people
SELECT json_serialize_sql('SELECT * FROM people'), count(*) FROM people
SELECT count(*) FROM json_execute_serialized_sql('{}')
SELECT count(alias(note)) FROM people
SELECT count(vector_type(note)) FROM people
SELECT count(is_histogram_other_bin(note)) FROM people
SELECT count(icu_sort_key(note, 'de')) FROM people
SELECT count(hash(people)) FROM people
SELECT count(md5_number(note)) FROM people
SELECT count(parse_duckdb_log_message(note, note)) FROM people
SELECT count(nosuchfunction(note)) FROM people
SELECT count(regexp_matches(note, note)) FROM people
SELECT count(repeat(note, 1000000000)) FROM people
SELECT count(lpad(note, 1000000000, 'x')) FROM people
SELECT count(printf(note, age)) FROM people
SELECT count(format(note, age)) FROM people
SELECT count(strptime(note, note)) FROM people
SELECT count(strftime(born, note)) FROM people
SELECT count(CAST(note AS JSON)) FROM people
SELECT count(from_json(note, '{"a": "INT"}')) FROM people
SELECT count(note -> 'a') FROM people
SELECT count(note ->> '$.a') FROM people
SELECT count(json_extract(note, 'a')) FROM people
SELECT count(list_transform([age], x -> x + 1)) FROM people
SELECT count(list_reduce([age], lambda x, y: x + y)) FROM people
SELECT count([age, id]) FROM people
SELECT count({'a': age}) FROM people
SELECT count(MAP {'a': age}) FROM people
SELECT count(struct_pack(a := age)) FROM people
SELECT count(row(age, id)) FROM people
SELECT count((age, id)) FROM people
SELECT count(union_value(a := age)) FROM people
SELECT count(CAST(note AS BLOB)) FROM people
SELECT count(encode(note)) FROM people
SELECT count(decode(encode(note))) FROM people
SELECT count(CAST(age AS ENUM('a'))) FROM people
SELECT count(CAST(note AS STRUCT(a INT))) FROM people
SELECT count(age COLLATE nocase) FROM people
SELECT count(born AT TIME ZONE 'Europe/Berlin') FROM people
# table functions and other ways to have a table
SELECT * FROM range(10), people
SELECT count(*) FROM people, range(1000000000000)
SELECT count(*) FROM generate_series(1, 1000000000000)
SELECT count(*) FROM people, unnest([id, 2, 3])
SELECT unnest([id]) FROM people
SELECT count(*) FROM people, LATERAL (SELECT people.note) AS l
SELECT count(*) FROM people CROSS JOIN LATERAL (SELECT max(amount) FROM orders) AS l
SELECT count(*) FROM repeat_row(1, num_rows = 1000000000)
SELECT count(*) FROM summary((SELECT * FROM people))
SELECT * FROM test_all_types()
SELECT * FROM seq_scan('people')
SELECT * FROM checkpoint()
SELECT * FROM force_checkpoint()
SELECT * FROM icu_calendar_names()
SELECT * FROM pg_timezone_names()
SELECT * FROM duckdb_approx_database_count()
SELECT count(*) FROM people POSITIONAL JOIN orders
SELECT count(*) FROM people ASOF JOIN orders ON people.id = orders.person AND people.born >= orders.placed
SELECT count(*) FROM people JOIN orders ON people.age = orders.qty
SELECT count(*) FROM people, orders
SELECT count(*) FROM people a, people b
SELECT count(*) FROM people a JOIN people b ON a.age = b.age
SELECT count(*) FROM people JOIN visits ON note = page
PIVOT people ON region USING count(*)
UNPIVOT people ON age INTO NAME n VALUE v
SELECT * FROM people PIVOT (count(*) FOR region IN ('north'))
SELECT * FROM people UNPIVOT (v FOR n IN (age, income))
SELECT count(*) FROM people MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS true)
SELECT count(*) FROM people AT (VERSION => 1)
SELECT count(*) FROM people FOR UPDATE
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r, people
WITH RECURSIVE r AS (SELECT note FROM people UNION SELECT note FROM r) SELECT * FROM r
WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT count(*) FROM a
WITH a AS (SELECT * FROM a) SELECT count(*) FROM a
WITH people AS MATERIALIZED (SELECT * FROM people) SELECT * FROM people
WITH x AS (INSERT INTO people VALUES (1) RETURNING *) SELECT * FROM x
# windows over everybody
SELECT row_number() OVER () FROM people
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY age) AS r FROM people) WHERE r = 1
SELECT sum(a) FROM (SELECT lag(age) OVER (ORDER BY id) AS a FROM people)
SELECT first_value(note) OVER (ORDER BY age) FROM people
SELECT max(age) OVER () FROM people
SELECT sum(m) FROM (SELECT max(age) OVER (PARTITION BY region) AS m FROM people)
SELECT count(*) FROM people QUALIFY row_number() OVER (ORDER BY age) = 1
SELECT age FROM people QUALIFY rank() OVER (ORDER BY age) = 1
SELECT nth_value(note, 2) OVER () FROM people
SELECT count(*) FROM (SELECT ntile(4) OVER (ORDER BY income) AS q FROM people)
# writing
INSERT INTO people VALUES (1)
INSERT INTO stores SELECT * FROM people
INSERT OR REPLACE INTO people SELECT * FROM people
UPDATE people SET age = 1
UPDATE people SET age = 1 RETURNING *
DELETE FROM people
DELETE FROM people RETURNING note
TRUNCATE people
MERGE INTO people USING orders ON people.id = orders.person WHEN MATCHED THEN DELETE
CREATE TABLE mine AS SELECT * FROM people
CREATE TEMP TABLE mine AS SELECT * FROM people
CREATE OR REPLACE TABLE people AS SELECT 1
CREATE TABLE mine (a INTEGER)
CREATE VIEW mine AS SELECT * FROM people
CREATE TEMP VIEW mine AS SELECT * FROM people
CREATE MACRO leak() AS (SELECT max(note) FROM people)
CREATE TEMP MACRO leak() AS TABLE SELECT * FROM people
CREATE FUNCTION leak(a) AS a
CREATE SEQUENCE seq
CREATE SCHEMA mine
CREATE TYPE mood AS ENUM (SELECT note FROM people)
CREATE INDEX i ON people (note)
CREATE TRIGGER t AFTER INSERT ON people EXECUTE FUNCTION f()
CREATE ROLE root SUPERUSER
GRANT ALL ON people TO ana
DROP TABLE people
DROP VIEW IF EXISTS mine
ALTER TABLE people ADD COLUMN x INTEGER
ALTER TABLE people RENAME TO persons
COMMENT ON TABLE people IS 'x'
VACUUM
VACUUM ANALYZE people
ANALYZE
ANALYZE people
CHECKPOINT
FORCE CHECKPOINT
REINDEX TABLE people
CLUSTER people
REFRESH MATERIALIZED VIEW mine
SELECT * INTO mine FROM people
LOCK TABLE people
DO $$ BEGIN PERFORM 1; END $$
CALL leak()
EXECUTE leak
EXECUTE leak(1)
PREPARE leak AS SELECT * FROM people
PREPARE leak AS SELECT count(*) FROM people WHERE note = $1
EXECUTE IMMEDIATE 'SELECT * FROM people'
DECLARE c CURSOR FOR SELECT * FROM people
FETCH ALL FROM c
KILL 1
NOTIFY a
# explaining by running
EXPLAIN ANALYZE SELECT count(*) FROM people
EXPLAIN (ANALYZE) SELECT count(*) FROM people
EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM people
EXPLAIN ANALYZE DELETE FROM people
EXPLAIN SELECT * FROM people
EXPLAIN (FORMAT json) SELECT note FROM people
# several statements
SELECT 1; SELECT * FROM people
SELECT * FROM people; SELECT 1
SELECT 1; DROP TABLE people
;; SELECT * FROM people
SELECT * FROM people;;
BEGIN; SELECT * FROM people; COMMIT
SELECT 1; COPY people TO 'x.csv'
# comments, quotes and encodings
SELECT /* count(*) */ * FROM people
SELECT * /* FROM stores */ FROM people
SELECT * -- count(*)\nFROM people
/* a /* b */ */ SELECT * FROM people
/*+ epsilon(1e99) */ SELECT count(*) FROM people
/*+ noise(off) */ SELECT count(*) FROM people
/*+ epsilon(-1) */ SELECT count(*) FROM people
/*+ epsilon(nan) */ SELECT count(*) FROM people
/*+ mechanism(none) */ SELECT count(*) FROM people
\x23 * FROM people
SELECT $$x$$ FROM people
SELECT $a$ count(*) $a$ FROM people
SELECT E'\\x41' FROM people
SELECT U&'\\0041' FROM people
SELECT x'00' FROM people
SELECT b'1' FROM people
\u200bSELECT * FROM people
SELECT\u200b* FROM people
SELECT * FROM\u00a0people
SELECT * FROM people\u2028WHERE true
SELECT count(*) FROM peop\u200ble
SELECT count(*) FROM \u0440eople
SELECT count(*) FROM ｐｅｏｐｌｅ
ＳＥＬＥＣＴ * FROM people
SELECT * FROM people\x00 GROUP BY 1
SELECT\x00* FROM people
\x00
\ufeffSELECT * FROM people
SELECT \u202e* FROM people
SELECT * FROM `people`
SELECT * FROM [people]
SELECT * FROM "pe""ople"
SELECT * FROM "people\x00"
SELECT '\ud800' FROM people
SELECT count(*) AS "\ud83e" FROM ghosts
SELECT * FROM people WHERE note = ' OR 1=1 --
SELECT * FROM people WHERE note = '' OR '1'='1'
' OR 1=1; --
"; DROP TABLE people; --
SELECT * FROM people WHERE note = ?
SELECT * FROM people WHERE note = $1
SELECT * FROM people WHERE note = :name
SELECT count(*) FROM people WHERE note = %(x)s AND %s
\\copy people to 'x'
\\! ls
\\i /etc/passwd
.tables
.read x.sql
%sql SELECT * FROM people
dpsql.query('{}')
SELECT dpsql.query('{"sql": "SELECT * FROM people"}')
SELECT dpsql.tables('{}') FROM people
SELECT dpsql.noise('off')
# numbers
SELECT note FROM people LIMIT 99999999999999999999999999
SELECT count(*) FROM people LIMIT -1
SELECT count(*) FROM people WHERE age > 1e999999999999 AND secret > 1
SELECT * FROM people WHERE age = 0x7fffffffffffffffffff
SELECT sum(age::DECIMAL(99999, 99998)) FROM people
SELECT sum(age * 1e308 * 1e308) FROM people
SELECT sum(1 << 9223372036854775807) FROM people
SELECT sum(age ** 99999999999) FROM people
SELECT count(*) FROM people WHERE born + INTERVAL '999999999999' YEAR > born
SELECT quantile_cont(age, 1.5) FROM people
SELECT quantile_cont(age, -1) FROM people
SELECT count(*) FROM people HAVING count(*) > (SELECT max(id) FROM people)
