SELECT count(*) FROM orders
---
SELECT sum(amount) FROM orders
---
SELECT count(*), sum(amount), avg(amount) FROM orders
---
-- laplace
SELECT avg(price) FROM orders
---
SELECT region, count(*) FROM customers GROUP BY region
---
SELECT customer_id % 3 = 0 AS third, sum(fee) FROM orders GROUP BY third
---
SELECT count(DISTINCT customer_id) FROM orders
---
SELECT count(DISTINCT note), count(DISTINCT status) FROM orders
---
-- laplace
SELECT count(DISTINCT customer_id) FILTER (WHERE qty > 3) FROM orders
---
-- laplace
SELECT sum(amount) FILTER (WHERE status = 'paid') / sum(amount) AS share, count_if(qty > 3), count(*) FROM orders
