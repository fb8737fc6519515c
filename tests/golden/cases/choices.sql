SELECT median(duration), min(duration), max(duration), count(*) FROM visits
---
SELECT page, quantile_disc(duration, 0.9) AS p90 FROM visits GROUP BY page ORDER BY p90
---
-- laplace
SELECT quantile_cont(amount, [0.25, 0.75]) AS quartiles FROM orders
---
SELECT status, percentile_cont(0.75) WITHIN GROUP (ORDER BY price DESC) FROM orders GROUP BY status
---
SELECT region, min(age), max(age), mode(age) FROM customers GROUP BY region
---
SELECT mode(status), min(placed), max(qty) FILTER (WHERE fee > 0) FROM orders
---
SELECT city, median(income) FROM customers GROUP BY city
---
SELECT max(most) FROM (SELECT customer_id, max(amount) AS most FROM orders GROUP BY customer_id)
---
SELECT median(weight) FROM orders
---
SELECT min(note) FROM orders
---
SELECT mode(amount) FROM orders
---
SELECT median(status) FROM orders
---
SELECT quantile_cont(amount, 1.5) FROM orders
---
SELECT quantile_cont(amount, qty) FROM orders
---
SELECT median(DISTINCT amount) FROM orders
---
SELECT dp_low(median(amount)) FROM orders
---
SELECT max(amount, 3) FROM orders
---
SELECT avg(m) FROM (SELECT customer_id, median(amount) AS m FROM orders GROUP BY customer_id)
