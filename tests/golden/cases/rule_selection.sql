SELECT agent, count(*) FROM visits GROUP BY agent
---
SELECT city, avg(age) FROM customers GROUP BY city
---
SELECT note, sum(amount) FROM orders GROUP BY note
---
-- laplace
SELECT note, status, count(*) FROM orders GROUP BY note, status
---
SELECT DISTINCT note FROM orders
---
SELECT weight, count(*) FROM orders GROUP BY weight
