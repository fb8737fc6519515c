SELECT count(*) FROM visits
---
SELECT sum(duration) FROM visits
---
SELECT page, count(*), avg(duration) FROM visits GROUP BY page
---
-- laplace
SELECT page, count(*), avg(duration) FROM visits GROUP BY page
---
-- laplace
SELECT count(duration), sum(duration), avg(duration) FROM visits
---
SELECT count(*) FROM visits WHERE duration > 60
---
SELECT page, count(DISTINCT agent) FROM visits GROUP BY page
