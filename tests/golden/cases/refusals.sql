SELECT * FROM orders
---
SELECT amount FROM orders WHERE amount > 10 ORDER BY amount LIMIT 1
---
SELECT secret FROM customers
---
SELECT count(*) FROM nothing
---
SELECT count(*) FROM Customer
---
SELECT count(amuont) FROM orders
---
SELECT sum(weight) FROM orders
---
SELECT avg(weight * 2) FROM orders
---
SELECT sum(amount / fee) FROM orders
---
SELECT max(weight) FROM orders
---
SELECT arg_max(amount, qty) FROM orders
---
SELECT sum(DISTINCT amount) FROM orders
---
SELECT status, amount, count(*) FROM orders GROUP BY status
---
SELECT status, count(*) FROM orders GROUP BY 3
---
SELECT status, count(*) FROM orders GROUP BY 2
---
SELECT count(*) FROM (SELECT * FROM orders LIMIT 10)
---
SELECT count(*) FROM (SELECT amount, row_number() OVER (ORDER BY amount) AS r FROM orders) WHERE r = 1
---
SELECT count(*) FROM orders TABLESAMPLE 10%
---
SELECT count(*) FROM (SELECT amount FROM orders UNION ALL SELECT income FROM customers)
---
SELECT count(*) FROM orders WHERE random() < 0.5
---
SELECT count(*) FROM orders WHERE soundex(note) = 'x'
---
SELECT count(*) FROM orders WHERE note = 5
---
SELECT count(*) FROM orders WHERE placed > 'yesterday'
---
SELECT sum(note) FROM orders
---
SELECT count(*) FROM read_csv('/etc/passwd')
---
SELECT count(*), current_setting('threads') FROM orders
---
SELECT count(*) FROM duckdb_tables()
---
SELECT rowid, count(*) FROM orders GROUP BY rowid
---
SELECT avg(amount) + nosuch(1) FROM orders
---
SELECT count(*) + status FROM orders
---
WITH RECURSIVE r AS (SELECT 1) SELECT count(*) FROM r, orders
---
SELECT count(*) FROM orders; DROP TABLE orders
---
DROP TABLE orders
---
INSERT INTO orders VALUES (1)
---
SET threads = 1
---
PRAGMA database_size
---
COPY orders TO 'out.csv'
---
ATTACH 'other.db'
---
EXPLAIN ANALYZE SELECT count(*) FROM orders
---
SUMMARIZE orders
---
SELECT count(*) FROM orders WHERE
---
SELECT count(* FROM orders
---
SELECT 'open
---

---
SELECT count(*) FROM orders PIVOT (count(*) FOR status IN ('paid'))
---
SELECT DISTINCT ON (status) amount FROM orders
---
SELECT count(*) FROM orders WHERE ?
---
SELECT sum(amount) OVER () FROM orders

---
SELECT customer_id, count(*) FROM orders GROUP BY customer_id
---
SELECT histogram(qty) FROM orders
---
SELECT count(*) FROM (orders o UNION ALL SELECT amount FROM orders)
---
SELECT count(DATE()) FROM orders
---
SELECT count(*), 1e FROM orders
---
SELECT sum(1e) FROM orders
