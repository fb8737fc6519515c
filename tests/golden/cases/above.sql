SELECT status, count(*) AS n FROM orders GROUP BY status HAVING count(*) > 10 ORDER BY n DESC LIMIT 2;
---
SELECT status, count(*) * 1.0 / sum(count(*)) OVER () AS share FROM orders GROUP BY status
---
SELECT rank() OVER (ORDER BY sum(amount) DESC) AS r, status FROM orders GROUP BY status QUALIFY r <= 2
---
WITH a AS (SELECT region, count(*) AS n FROM customers GROUP BY region), b AS (SELECT region, avg(age) AS age FROM customers GROUP BY region) SELECT a.region, n, age FROM a JOIN b USING (region) WHERE n > 10
---
SELECT count(*) FROM orders UNION ALL SELECT count(*) FROM customers
---
SELECT s.name, c.n FROM (SELECT region, count(*) AS n FROM customers GROUP BY region) AS c JOIN stores s ON s.region = c.region
---
SELECT * FROM stores
---
SELECT sum(area) FROM stores
---
SELECT CASE WHEN avg(amount) > 100 THEN 'high' ELSE 'low' END AS level, (SELECT count(*) FROM customers) AS people FROM orders
---
SELECT "status" AS "Status", COUNT(*) AS "COUNT(*)" FROM "main"."orders" AS "orders" /* chart 7 */ GROUP BY "status" ORDER BY "COUNT(*)" DESC LIMIT 1000
---
SELECT * FROM (SELECT status, count(*) AS n FROM orders GROUP BY status) t LIMIT 1000
---
WITH paid(who, much) AS (SELECT customer_id, amount FROM orders WHERE status = 'paid') SELECT sum(much) FROM paid
---
SELECT status, skewness(amount) AS skew FROM orders GROUP BY status
