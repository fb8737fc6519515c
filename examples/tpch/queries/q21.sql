-- Saudi suppliers who alone kept an order of several suppliers waiting, and how often.
SELECT s_name, count(*) AS numwait
FROM lineitem AS late
JOIN orders ON o_orderkey = late.l_orderkey
JOIN supplier ON s_suppkey = late.l_suppkey
JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'SAUDI ARABIA'
    AND o_orderstatus = 'F'
    AND late.l_receiptdate > late.l_commitdate
    AND EXISTS (
        SELECT * FROM lineitem AS other
        WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
    )
    AND NOT EXISTS (
        SELECT * FROM lineitem AS other
        WHERE other.l_orderkey = late.l_orderkey
            AND other.l_suppkey <> late.l_suppkey
            AND other.l_receiptdate > other.l_commitdate
    )
GROUP BY s_name
ORDER BY numwait DESC, s_name
LIMIT 100
