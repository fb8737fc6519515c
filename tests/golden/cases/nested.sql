SELECT count(*) FROM customers WHERE income > (SELECT avg(income) FROM customers)
---
SELECT region, count(*) AS n FROM orders JOIN customers ON customer_id = id WHERE amount > (SELECT 2 * avg(amount) FROM orders WHERE status = 'paid') GROUP BY region ORDER BY n DESC
---
SELECT count(*) FROM orders o WHERE amount > (SELECT avg(amount) FROM orders p WHERE p.status = o.status)
---
SELECT count(*) FROM orders o WHERE 10 < (SELECT count(*) FROM orders p WHERE p.note = o.note)
---
SELECT count(*) FROM orders o JOIN stores s ON o.note = s.name WHERE s.area > 15 AND amount > (SELECT avg(amount) FROM orders p WHERE p.note = s.name)
---
SELECT count(*) FROM orders WHERE status IN (SELECT status FROM orders GROUP BY status HAVING count(*) > 100)
---
SELECT r.kept, count(*) FROM orders JOIN (SELECT status, round(avg(amount)) AS kept FROM orders GROUP BY status) AS r USING (status) GROUP BY r.kept
---
WITH a AS (SELECT region, avg(age) AS m FROM customers GROUP BY region), b AS (SELECT max(m) AS most FROM a) SELECT count(*) FROM customers c JOIN a ON a.region = c.region WHERE c.age > a.m AND c.age < (SELECT most FROM b)
---
SELECT count(*) FROM customers WHERE age > (SELECT avg(age) FROM customers WHERE income > (SELECT avg(income) FROM customers))
---
SELECT avg(age) FROM customers c WHERE 100 < (SELECT max(amount) FROM orders o WHERE o.customer_id = c.id)
---
SELECT count(*) FROM members m WHERE 0 = (SELECT count(*) FROM orders o WHERE o.customer_id = m.id AND o.status = 'lost')
---
SELECT count(*) FROM visits WHERE duration > (SELECT avg(duration) FROM visits)
---
SELECT count(*) FROM orders WHERE qty > (SELECT max(size) FROM areas)
---
SELECT count(*) FROM lines JOIN (SELECT country, max(size) AS most FROM areas GROUP BY country) AS c ON c.most = lines.qty
---
SELECT count(*) FROM lines l WHERE 3 <= (SELECT size FROM areas a WHERE a.name = l.area)
---
SELECT name, (SELECT count(*) FROM orders o WHERE o.note = s.name) AS n FROM stores s ORDER BY name
---
SELECT name FROM stores WHERE area IN (SELECT size FROM areas WHERE size < (SELECT avg(qty) FROM lines WHERE lines.area = areas.name))
---
SELECT sum(r.m) FROM orders JOIN (SELECT status, avg(amount) AS m FROM orders GROUP BY status) AS r USING (status)
---
SELECT count(*) FROM orders WHERE amount > (SELECT amount FROM orders)
---
SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders GROUP BY status)
---
SELECT count(*) FROM orders o WHERE amount > (SELECT avg(amount) FROM orders p WHERE p.qty < o.qty)
---
SELECT count(*) FROM orders o WHERE amount > (SELECT avg(amount) FROM orders p WHERE p.status = o.status GROUP BY p.qty)
---
SELECT count(*) FROM orders o WHERE amount > (SELECT p.amount FROM orders p WHERE p.status = o.status)
---
SELECT count(*) FROM visits v JOIN (SELECT page, avg(duration) AS m FROM visits GROUP BY page) AS a ON a.m > v.duration
---
SELECT count(*) FROM visits v JOIN (SELECT page, avg(duration) AS m FROM visits GROUP BY page) AS a ON a.page = v.page WHERE v.duration > a.m
