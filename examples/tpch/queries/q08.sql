-- Brazil's share of the American market for one type of steel, by year.
SELECT
    extract(YEAR FROM o_orderdate) AS o_year,
    sum(CASE WHEN supplied.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / sum(l_extendedprice * (1 - l_discount)) AS mkt_share
FROM lineitem
JOIN part ON p_partkey = l_partkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation AS supplied ON supplied.n_nationkey = s_nationkey
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation AS bought ON bought.n_nationkey = c_nationkey
JOIN region ON r_regionkey = bought.n_regionkey
WHERE r_name = 'AMERICA'
    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
    AND p_type = 'ECONOMY ANODIZED STEEL'
GROUP BY o_year
ORDER BY o_year
