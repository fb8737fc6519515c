-- laplace
SELECT quantile_cont(duration, [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9]) AS q FROM visits
---
SELECT region, quantile_disc(age, [0.1, 0.2, 0.3, 0.4]) AS q FROM customers GROUP BY region
---
-- laplace
SELECT region, quantile_disc(age, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]) AS q, count(*) FROM customers GROUP BY region
