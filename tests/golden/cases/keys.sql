SELECT vip, count(*) FROM customers GROUP BY vip
---
SELECT qty, count(*) FROM orders GROUP BY qty
---
SELECT extract(month FROM placed) AS m, count(*) FROM orders GROUP BY m
---
SELECT date_trunc('quarter', placed) AS q, count(*) FROM orders GROUP BY 1 ORDER BY 1
---
SELECT placed, count(*) FROM orders WHERE placed BETWEEN '2024-03-01' AND '2024-03-07' GROUP BY placed
---
SELECT CASE WHEN amount < 10 THEN 'small' WHEN amount < 100 THEN 'middle' ELSE 'large' END AS size, count(*) FROM orders GROUP BY size
---
SELECT status, qty, count(*) FROM orders WHERE qty <= 3 AND status <> 'lost' GROUP BY ALL
---
SELECT region, upper(region) AS loud, count(*) FROM customers GROUP BY region
---
SELECT DISTINCT region FROM members
---
SELECT placed, qty, count(*) FROM orders GROUP BY placed, qty
