-- Q3 by month of the order instead of by order.
SELECT date_trunc('month', o_orderdate) AS o_month, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING'
    AND o_orderdate BETWEEN DATE '1994-11-01' AND DATE '1995-03-14'
    AND l_shipdate > DATE '1995-03-15'
GROUP BY o_month
ORDER BY revenue DESC
