SELECT status, qty, grouping_id(status, qty) AS level, count(*) FROM orders GROUP BY ROLLUP (status, qty) ORDER BY level
---
-- laplace
SELECT page, avg(duration), DP_ERROR(avg(duration)) AS bar FROM visits GROUP BY CUBE (page)
---
SELECT region, city, count(*) FROM customers GROUP BY GROUPING SETS ((region, city), (region), (region), ())
---
SELECT customer_id, status, count(*) FROM orders GROUP BY ROLLUP (customer_id, status)
---
SELECT status, count(*) FROM orders GROUP BY status WITH ROLLUP
---
SELECT grouping(note), status, count(*) FROM orders GROUP BY ROLLUP (status)
