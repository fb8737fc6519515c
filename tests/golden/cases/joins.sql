SELECT count(*) FROM orders o JOIN customers c ON o.customer_id = c.id
---
SELECT count(*) FROM orders, stores
---
SELECT m.region, count(*), avg(o.amount) FROM orders o, members m WHERE o.customer_id = m.id AND m.age > 30 GROUP BY m.region
---
SELECT o.status, m.region, sum(o.amount) FROM members m JOIN orders o ON m.id = o.customer_id GROUP BY ALL
---
SELECT sum(qty) FROM lines
---
SELECT avg(l.qty), avg(i.total) FROM lines l JOIN invoices i ON l.invoice = i.number
---
SELECT l.area, sum(l.qty) FROM lines l, invoices i, members m WHERE l.invoice = i.number AND i.customer_id = m.id GROUP BY l.area
---
SELECT a.country, count(*) FROM members m JOIN areas a ON m.region = a.name GROUP BY a.country
---
SELECT a.country, count(*) FROM members m JOIN orders o ON m.id = o.customer_id JOIN areas a ON m.region = a.name GROUP BY a.country
---
SELECT s.name, sum(i.total) FROM invoices i JOIN stores s ON i.store = s.name JOIN areas a ON s.region = a.name WHERE a.country = 'here' GROUP BY s.name
---
SELECT v.page, count(*) FROM visits v JOIN areas a ON v.agent = a.name GROUP BY v.page
---
SELECT count(*), count(o.amount), avg(o.amount) FROM members m LEFT JOIN orders o ON m.id = o.customer_id AND o.amount > 10
---
SELECT n, count(*) FROM (SELECT m.id, count(o.qty) AS n FROM members m LEFT JOIN orders o ON m.id = o.customer_id GROUP BY m.id) GROUP BY n
---
SELECT count(id) FROM members FULL JOIN (SELECT customer_id AS id, amount FROM orders) AS o USING (id)
---
SELECT a.country, count(*) FROM invoices i LEFT JOIN areas a ON i.store = a.name GROUP BY a.country
---
SELECT count(*) FROM invoices SEMI JOIN lines ON invoice = number AND qty > 3
---
SELECT count(*) FROM invoices i WHERE total > 10 AND NOT EXISTS (SELECT * FROM lines l WHERE l.invoice = i.number AND l.qty > 3)
---
SELECT count(*) FROM orders WHERE customer_id IN (SELECT id FROM customers)
---
SELECT count(*) FROM invoices WHERE number IN (SELECT invoice FROM lines GROUP BY invoice HAVING sum(qty) > 30)
---
SELECT count(*) FROM members WHERE id NOT IN (SELECT customer_id FROM orders WHERE status = 'lost')
---
SELECT count(*) FROM invoices WHERE store NOT IN (SELECT name FROM stores WHERE area > 10)
---
SELECT avg(n) FROM (SELECT invoice, sum(qty) AS n FROM lines GROUP BY invoice)
