SELECT status, sum(amount) FROM orders GROUP BY status
---
-- laplace
SELECT status, count(*), sum(amount) FROM orders GROUP BY status
---
SELECT status, count(*), avg(fee) FROM orders GROUP BY status
---
SELECT status, count(DISTINCT customer_id), sum(qty) FROM orders GROUP BY status
---
SELECT total > 100 AS big, count(*) FROM (SELECT customer_id, status, sum(amount) AS total FROM orders GROUP BY customer_id, status) GROUP BY big
---
SELECT status, count(DISTINCT note), count(*) FROM orders GROUP BY status
---
SELECT note, approx_count_distinct(qty) FILTER (WHERE qty > 3) FROM orders GROUP BY note
