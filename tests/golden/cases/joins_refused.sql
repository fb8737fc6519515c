SELECT count(*) FROM orders o JOIN customers c ON o.status = c.region
---
SELECT count(*) FROM orders, members
---
SELECT count(*) FROM orders o JOIN members m ON o.customer_id = m.id + 1
---
SELECT count(*) FROM members m JOIN lines l ON l.area = m.region
---
SELECT count(*) FROM stores s LEFT JOIN orders o ON s.name = o.note
---
SELECT count(*) FROM orders o FULL JOIN stores s ON s.name = o.note
---
SELECT count(*) FROM members m LEFT JOIN orders o ON m.region = o.status
---
SELECT count(*) FROM visits v, orders o WHERE v.page = o.note
---
SELECT count(*) FROM visits v JOIN stores s ON v.agent = s.name
---
SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM members)
---
SELECT count(*) FROM orders WHERE note IN (SELECT region FROM members)
---
SELECT count(*) FROM orders o WHERE amount > 3 OR EXISTS (SELECT 1 FROM members m WHERE m.id = o.customer_id)
---
SELECT count(*) FROM members m JOIN orders o ON m.id = o.customer_id JOIN customers c ON c.id = m.id WHERE region = 'north'
---
SELECT count(*) FROM members m JOIN orders m ON m.id = m.customer_id
---
SELECT count(*) FROM members NATURAL JOIN orders
---
SELECT count(*) FROM orders o ASOF JOIN members m ON o.placed >= m.id
---
SELECT count(*) FROM (orders o JOIN members m ON o.customer_id = m.id)
---
SELECT i.number, sum(l.qty) FROM invoices i JOIN lines l ON l.invoice = i.number GROUP BY i.number
---
SELECT m.id, o.amount FROM members m JOIN orders o ON m.id = o.customer_id
---
SELECT count(*) FROM orders o JOIN members m ON o.customer_id = m.id WHERE z.age > 3
---
SELECT count(*) FROM orders o JOIN members USING (id)
