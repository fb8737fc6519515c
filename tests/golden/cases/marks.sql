SELECT CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = m.id) THEN 'buyer' ELSE 'other' END AS who, count(*) FROM members m GROUP BY who
---
SELECT count(*) FROM orders o WHERE o.qty > 10 OR o.customer_id IN (SELECT id FROM members WHERE age > 60)
---
SELECT sum(amount) FILTER (WHERE note IN (SELECT name FROM stores)) FROM orders
---
SELECT count(*) FROM members m WHERE m.age > 90 OR EXISTS (SELECT 1 FROM orders o WHERE o.status = m.region)
---
SELECT count(*), EXISTS (SELECT 1 FROM stores) FROM orders
---
SELECT sum((SELECT count(*) FROM stores)) FROM orders
