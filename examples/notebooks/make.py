"""Makes the notebooks from the cells below, runs them, and saves them with their outputs.

Run it with `python examples/notebooks/make.py` (needs `pip install 'dpsql[notebook]' nbclient nbconvert`). With
`--pictures` it also opens them in chromium, light and dark, and saves what is seen in `pictures/`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
REFUSED = "raises-exception"

FIRST_STEPS = """
# First steps

Two lines to a first private answer. The data are made up here: what people spent in four regions, several rows each.
---
import numpy as np
import pandas as pd

import dpsql

rng = np.random.default_rng(7)
rows, people = 6_000, 1_500
df = pd.DataFrame(
    {
        "user_id": rng.integers(0, people, rows),
        "region": rng.choice(["north", "south", "east", "west"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        "amount": rng.gamma(2, 30, rows).clip(0, 500).round(2),
    }
)
df["age"] = 18 + (df.user_id * 7) % 70
---
## Protect it

`unit` says who is protected: all rows of one `user_id` together. `epsilon` is the budget of all answers together, and
`bounds` and `values` say what is known without looking at the data.
---
people = df.dp.protect(
    unit="user_id",
    bounds={"age": (18, 110), "amount": (0, 500)},
    values={"region": ["north", "south", "east", "west"]},
    max_rows_per_unit=8,
    epsilon=3,
)
people
---
## Ask

The verbs are those of pandas. Each asks at once, costs a part of the budget, and comes with error bars.
---
spent = people.groupby("region")["amount"].agg(["count", "mean"], epsilon=0.5)
spent
---
spent.plot(y="mean");
---
people[people.age >= 65].amount.mean(epsilon=0.4)
---
Asked again, an answer is the same, and free. SQL does as well: it is the same plan.
---
sql = "SELECT region, count(amount) AS n, avg(amount) FROM df GROUP BY region ORDER BY n DESC"
people.sql(sql, epsilon=0.5)
---
## Look before you spend

`.explain()` before the verb says what it would do and cost; `.to_sql()` what SQL it stands for. Both are free.
---
people.explain().groupby("region")["amount"].sum(epsilon=0.5)
---
people.to_sql().query("age < 30 and region in ['north', 'south']").amount.mean()
---
## What is not shown

No row is, and a refusal says what to do instead. It costs nothing.
---!
people.head()
---!
people.amuont.mean()
---
people.budget()
"""

STUDY = """
# A study: do members buy more?

A question, a budget, and a plan to make it last. The data are made up: people, and what they ordered.
---
import numpy as np
import pandas as pd

import dpsql

rng = np.random.default_rng(11)
n = 4_000
member = rng.random(n) < 0.35
age = rng.integers(18, 90, n)
customers = pd.DataFrame({"id": np.arange(n), "age": age, "member": member})
ids = np.repeat(np.arange(n), rng.poisson(np.where(member, 5.5, 4.0)))
days = pd.to_timedelta(rng.integers(0, 365, len(ids)), unit="D")
spent = rng.gamma(2.2, 20, len(ids)) * np.where(member[ids], 1.25, 1)
orders = pd.DataFrame({"id": ids, "amount": spent.round(2)})
orders["placed"] = pd.Timestamp("2025-01-01") + days
---
Both tables belong to the same people, so they share one account: the second is protected *beside* the first. One person
has one row in `customers`, and up to 12 of their orders count.
---
people = customers.dp.protect(
    unit="id", bounds={"age": (18, 110)}, max_rows_per_unit=1, epsilon=4, called="customers"
)
bought = orders.dp.protect(
    unit="id",
    bounds={"amount": (0, 300), "placed": ("2025-01-01", "2025-12-31")},
    max_rows_per_unit=12,
    called="orders",
    beside=people,
)
bought
---
## Plan

How exact would each answer be, at a tenth of the budget? `explain` tells, and spends nothing.
---
print(people.explain().groupby("member").size(epsilon=0.4).expected_error())
print(bought.explain().amount.sum(epsilon=0.4).expected_error())
print(bought.explain().amount.mean(epsilon=0.4).expected_error(n=15_000))
---
Or say how exact it must be, and let the price be found: the count within ± 100.
---
print(people.explain().size(accuracy=100).cost)
---
## Who they are
---
people.groupby("member").size(epsilon=0.2)
---
people.age.hist(bins=9, epsilon=0.4).plot();
---
## What they buy

A merge on the unit keeps every row with its owner. Then the groups are as in pandas.
---
both = bought.merge(people, on="id")
per_order = both.groupby("member")["amount"].agg(["count", "mean"], epsilon=1)
per_order
---
per_order.plot(y="mean");
---
All intervals of a column can be asked to hold together, before anything is concluded from two of them.
---
per_order.intervals(0.95, simultaneous=True)[["mean_low", "mean_high"]].round(1)
---
## Over the year
---
months = bought.groupby(bought.placed.dt.to_period("M"))["amount"].sum(epsilon=1)
months.plot();
---
## What is left
---
people.budget()
"""

STEWARD = """
# The steward's view

A steward writes one policy, checks it against the data, and reads the ledger. The clinic is made up here, in a folder
that is thrown away with the notebook.
---
import os
import sys
import tempfile
from pathlib import Path

import duckdb

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
with duckdb.connect("clinic.duckdb") as db:
    db.execute("CREATE TABLE patients AS SELECT i AS id, 1 + i * 37 % 99 AS age FROM range(3000) t(i)")
    db.execute('''
        CREATE TABLE stays AS
        SELECT i % 3000 AS patient, i * 7919 % 29 AS days,
               ['cardiology', 'maternity', 'surgery'][1 + i * 31 % 3] AS ward
        FROM range(7000) t(i)''')
---
## A draft

`init` looks at names and types, and drafts a policy to be corrected. It names no bounds: those are what you know, not
what the data happen to hold.
---
!{sys.executable} -m dpsql init clinic.duckdb --policy draft.yaml
print(Path("draft.yaml").read_text())
---
## The policy
---
policy = '''
dataset: clinic
budget:
  epsilon: 6
  delta: 1e-6
  analysts: {ana: {epsilon: 3}, bo: {epsilon: 3, tables: [stays]}}
limits: {epsilon: 1}
defaults: {epsilon: 0.5}
tables:
  patients: {unit: id, unique: true, columns: {age: {min: 0, max: 110}}}
  stays:
    unit: patient
    max_rows_per_unit: 4
    columns:
      days: {min: 0, max: 30}
      ward: {values: [cardiology, maternity, surgery], nulls: false}
'''
Path("policy.yaml").write_text(policy);
---
What the policy declares is checked, not believed.
---
!{sys.executable} -m dpsql check clinic.duckdb
---
## Analysts ask

Here through the notebook's magic. The result is in `_`, or in the name that `--as` gives.
---
%load_ext dpsql
%dpsql connect clinic.duckdb --analyst ana
---
%%dpsql --epsilon 0.5 --as wards
SELECT ward, count(*) AS stays, avg(days) AS days FROM stays GROUP BY ward ORDER BY stays DESC
---
wards.plot(y="days");
---
A refusal points at the clause. It costs nothing.
---!
%%dpsql
SELECT patient, days FROM stays WHERE days > 20
---!
%%dpsql --epsilon 2
SELECT avg(age) FROM patients
---
%%dpsql --explain
SELECT ward, sum(days) FROM stays GROUP BY ward
---
## The ledger

Every charge is there, in order, with who asked what. Nothing is refunded, and what was tampered with is refused.
---
%dpsql budget
---
!{sys.executable} -m dpsql ledger log clinic.ledger
!{sys.executable} -m dpsql ledger verify clinic.ledger
---
%dpsql close
os.chdir("/")
folder.cleanup()
"""

NOTEBOOKS = {"first_steps": FIRST_STEPS, "study": STUDY, "steward": STEWARD}


def cells(text: str) -> list[Any]:
    """Cells are divided by `---`; one after `---!` is refused; code is what does not read as prose."""
    made = []
    for number, (mark, body) in enumerate(re.findall(r"(---!?\n|\A\n)(.*?)(?=\n---|\n\Z)", text, re.S)):
        source = body.strip("\n")
        prose = source.startswith("#") or bool(re.match(r"[A-Z`][^=(%]*? [a-z`]", source))
        cell = nbformat.v4.new_markdown_cell(source) if prose else nbformat.v4.new_code_cell(source)
        cell["id"] = f"cell-{number}"
        if "!" in mark:
            cell["metadata"]["tags"] = [REFUSED]
        made.append(cell)
    return made


def notebook(name: str) -> Any:
    """One of the notebooks, not yet run."""
    made = nbformat.v4.new_notebook(cells=cells(NOTEBOOKS[name]))
    made["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def executed(made: Any, folder: Path) -> Any:
    """The notebook with its outputs; a cell that fails without being meant to is an error."""
    NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    for cell in made["cells"]:
        cell["metadata"].pop("execution", None)
    made["metadata"].pop("language_info", None)
    return made


def page(made: Any, theme: str) -> str:
    """The notebook as one HTML page, which loads nothing from elsewhere."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(theme=theme, mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    text: str = exporter.from_notebook_node(made)[0]
    return re.sub(r"<script[^>]*src=[^>]*></script>|<link[^>]*rel=\"stylesheet\"[^>]*https?:[^>]*>", "", text)


def chromium(page: Path, theme: str, *asked: str) -> bytes:
    """Open a page without a window, in a profile of its own."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("chromium is needed to open the pages")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                   "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", f"--user-data-dir={profile}",
                   f"--blink-settings=preferredColorScheme={int(theme != 'dark')}", *asked, page.as_uri()]  # fmt: skip
        return subprocess.run(command, capture_output=True, timeout=300, check=True).stdout  # noqa: S603


def main() -> None:
    """Make, run and save them all."""
    for name in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            made = executed(notebook(name), Path(folder))
            nbformat.write(made, HERE / f"{name}.ipynb")
            print(f"{name}: {len(made['cells'])} cells")
            for theme in ("light", "dark") if "--pictures" in sys.argv else ():
                shown = Path(folder) / f"{name}.html"
                shown.write_text(page(made, theme), encoding="utf-8")
                picture = HERE / "pictures" / f"{name}_{theme}.png"
                chromium(shown, theme, f"--screenshot={picture}", "--window-size=880,6000")
                _trim(picture)


def _trim(picture: Path) -> None:
    """Without the empty rest of the window, and with few colours: a small file."""
    from PIL import Image, ImageChops

    with Image.open(picture) as opened:
        image = opened.convert("RGB")
    empty = Image.new("RGB", image.size, image.getpixel((2, image.height - 2)))
    box = ImageChops.difference(image, empty).getbbox()
    bottom = image.height if box is None else min(image.height, box[3] + 30)
    image.crop((0, 0, image.width, bottom)).quantize(64).save(picture, optimize=True)


if __name__ == "__main__":
    main()
