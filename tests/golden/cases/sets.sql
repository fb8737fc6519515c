SELECT count(*), sum(amount) FROM (SELECT customer_id, amount FROM orders UNION ALL SELECT customer_id, total FROM invoices)
---
SELECT region, count(*) FROM (SELECT id, region FROM customers UNION SELECT id, region FROM members) GROUP BY region
---
SELECT count(*) FROM (SELECT customer_id FROM orders EXCEPT SELECT id FROM members WHERE age > 60)
---
SELECT count(*) FROM (SELECT customer_id, qty FROM orders INTERSECT ALL SELECT customer_id, qty FROM orders WHERE status = 'paid')
---
SELECT count(*) FROM (SELECT id FROM members UNION (SELECT customer_id FROM orders EXCEPT SELECT customer_id FROM invoices))
---
SELECT count(*) FROM (SELECT DISTINCT customer_id, status, count(*) AS n FROM orders GROUP BY customer_id, status, qty)
---
SELECT count(*) FROM customers UNION (SELECT 2 EXCEPT SELECT 1)
---
SELECT count(*) FROM (SELECT region FROM customers UNION SELECT region FROM members)
---
SELECT count(*) FROM (SELECT region FROM members INTERSECT SELECT id FROM customers)
---
SELECT count(*) FROM (SELECT region FROM members UNION ALL SELECT region FROM stores)
---
SELECT count(*) FROM (SELECT qty FROM orders UNION ALL SELECT count(*) FROM orders)
---
SELECT count(*) FROM (SELECT page FROM visits UNION ALL SELECT agent FROM visits)
---
SELECT count(*) FROM (SELECT page FROM visits UNION ALL SELECT region FROM members)
---
SELECT count(*) FROM (SELECT id, age FROM members UNION ALL SELECT id FROM customers)
---
SELECT count(*) FROM (SELECT id FROM members UNION ALL SELECT id FROM customers LIMIT 3)
---
SELECT count(*) FROM (SELECT DISTINCT status, count(*) FROM orders GROUP BY customer_id, status)
