// node-postgres: plain and named statements, parameters, dates, an error with its position and hint.
const { Client } = require("pg");

async function main() {
  const client = new Client({ ssl: { rejectUnauthorized: false } });
  const said = {};
  await client.connect();
  client.on("notice", (notice) => { said.notice = notice.message; });
  const groups = await client.query("SELECT region, count(*) AS n, avg(age) AS age FROM customers GROUP BY region ORDER BY region");
  said.regions = groups.rows.map((row) => row.region);
  said.fields = groups.fields.map((field) => [field.name, field.dataTypeID]);
  said.counts = [];
  for (let i = 0; i < 7; i++) {
    const named = { name: "older", text: "SELECT count(*) AS n FROM customers WHERE age > $1 AND region = $2", values: [40, "north"] };
    said.counts.push((await client.query(named)).rows[0].n);
  }
  said.since = (await client.query("SELECT count(*) AS n FROM orders WHERE placed >= $1::date", ["2024-06-01"])).rows.length;
  said.probe = (await client.query("SELECT * FROM orders WHERE 1=0")).fields.length;
  try {
    await client.query("SELECT avg(CAST(city AS DOUBLE PRECISION)) FROM customers");
  } catch (error) {
    said.error = { code: error.code, position: error.position, hint: error.hint };
  }
  said.alive = (await client.query("SELECT 1 AS one")).rows[0].one;
  await client.end();
  console.log(JSON.stringify(said));
}

main().catch((error) => { console.error(error); process.exit(1); });
