-- Shipping between France and Germany, by direction and year.
SELECT
    supplied.n_name AS supp_nation,
    bought.n_name AS cust_nation,
    extract(YEAR FROM l_shipdate) AS l_year,
    sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation AS supplied ON supplied.n_nationkey = s_nationkey
JOIN nation AS bought ON bought.n_nationkey = c_nationkey
WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
    AND (
        (supplied.n_name = 'FRANCE' AND bought.n_name = 'GERMANY')
        OR (supplied.n_name = 'GERMANY' AND bought.n_name = 'FRANCE')
    )
GROUP BY supp_nation, cust_nation, l_year
ORDER BY supp_nation, cust_nation, l_year
