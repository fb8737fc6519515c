-- Q18 as a count: how many orders are of which size, instead of which orders and whose.
SELECT
    CASE WHEN quantity > 300 THEN 'above 300' WHEN quantity > 200 THEN 'above 200' ELSE 'up to 200' END AS pieces,
    count(*) AS orders
FROM (
    SELECT o_custkey, o_orderkey, sum(l_quantity) AS quantity
    FROM orders
    JOIN lineitem ON l_orderkey = o_orderkey
    GROUP BY o_custkey, o_orderkey
)
GROUP BY pieces
ORDER BY pieces
