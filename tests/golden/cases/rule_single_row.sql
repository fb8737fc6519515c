SELECT region, count(*), avg(age) FROM members GROUP BY region
---
SELECT count(DISTINCT id) FROM members
---
SELECT avg(total) FROM (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id)
---
SELECT n, count(*) FROM (SELECT customer_id, count(*) AS n FROM orders WHERE status = 'paid' GROUP BY customer_id HAVING count(*) > 2) GROUP BY n
---
SELECT avg(top), avg(low), sum(kinds) FROM (SELECT customer_id, max(qty) AS top, min(price) AS low, count(DISTINCT status) AS kinds FROM orders GROUP BY customer_id)
