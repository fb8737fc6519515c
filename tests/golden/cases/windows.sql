SELECT avg(amount) FROM (SELECT amount FROM orders QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY placed DESC) = 1)
---
SELECT r, count(*) FROM (SELECT row_number() OVER (PARTITION BY customer_id ORDER BY placed) AS r FROM orders) WHERE r <= 3 GROUP BY r
---
SELECT avg(date_diff('day', before, placed)) FROM (SELECT placed, lag(placed) OVER (PARTITION BY customer_id ORDER BY placed) AS before FROM orders)
---
SELECT n, count(*) FROM (SELECT count(*) OVER (PARTITION BY customer_id) AS n FROM orders) GROUP BY n
---
SELECT sum(amount) FROM (SELECT amount, sum(amount) OVER (PARTITION BY customer_id ORDER BY placed ROWS UNBOUNDED PRECEDING) AS so_far FROM orders) WHERE so_far < 100
---
SELECT status, count(*) FROM (SELECT customer_id, status FROM orders GROUP BY customer_id, status QUALIFY rank() OVER (PARTITION BY customer_id ORDER BY count(*) DESC) = 1) GROUP BY status
---
SELECT sum(amount) OVER () FROM orders
---
SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY status ORDER BY placed) AS r FROM orders) WHERE r = 1
---
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY duration) AS r FROM visits) WHERE r = 1
---
SELECT sum(w) FROM (SELECT last_value(amount) OVER (PARTITION BY customer_id ORDER BY placed) AS w FROM orders)
---
SELECT sum(w) FROM (SELECT sum(amount) OVER (PARTITION BY customer_id ORDER BY qty RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS w FROM orders)
---
SELECT sum(w) FROM (SELECT sum(amount) OVER (PARTITION BY customer_id ORDER BY placed ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) AS w FROM orders)
---
SELECT sum(w) FROM (SELECT sum(weight) OVER (PARTITION BY customer_id) AS w FROM orders)
---
SELECT sum(w) FROM (SELECT lag(amount, qty) OVER (PARTITION BY customer_id ORDER BY placed) AS w FROM orders)
---
SELECT sum(w) FROM (SELECT median(amount) OVER (PARTITION BY customer_id) AS w FROM orders)
