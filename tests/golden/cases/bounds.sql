SELECT sum(amount * qty) FROM orders
---
SELECT sum(amount - fee) FROM orders
---
SELECT sum(amount) FROM orders WHERE amount < 50
---
SELECT sum(CASE WHEN amount > 100 THEN amount - 100 ELSE 0 END) FROM orders
---
SELECT sum(CASE WHEN weight BETWEEN 0 AND 80 THEN weight END) FROM orders
---
SELECT sum(least(greatest(weight, -1), 1)) FROM orders
---
SELECT sum(weight) FROM orders WHERE weight >= 0 AND weight <= 30
---
SELECT avg(abs(fee)), avg(round(amount)), avg(sqrt(amount)) FROM orders
---
SELECT sum(amount / qty) FROM orders
---
SELECT avg(date_diff('day', placed, DATE '2024-12-31')) FROM orders
---
SELECT avg(extract(month FROM placed)) FROM orders
---
SELECT sum(coalesce(amount, 1000)) FROM orders
---
SELECT sum(amount) FILTER (WHERE status = 'paid') FROM orders
---
SELECT avg(length(status)), avg(CAST(price AS INTEGER)) FROM orders
---
SELECT sum(price * qty) FROM orders
---
SELECT sum(CAST(vip AS INTEGER)), avg(vip) FROM customers
---
SELECT sum(power(fee, 2)) FROM orders
---
SELECT sum(x) FROM (SELECT amount * 2 AS x FROM orders WHERE amount < 10) WHERE x > 1
