"""First steps: a made-up clinic as data frames, private answers with error bars, and a budget that is kept.

Run it with `python examples/first_steps.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import dpsql

POLICY = Path(__file__).with_name("policy.yaml")


def clinic(patients: int = 3_000, stays: int = 6_000) -> dict[str, pd.DataFrame]:
    """Made-up stays of made-up patients, and the wards' beds."""
    rng = np.random.default_rng(11)
    names = np.array(["cardiology", "maternity", "surgery"])
    ward = rng.integers(0, 3, stays)
    return {
        "stays": pd.DataFrame(
            {
                "patient": rng.integers(0, patients, stays),
                "ward": names[ward],
                "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, stays), unit="D"),
                "days": np.minimum(rng.poisson(np.array([5, 3, 7])[ward]), 30),
            }
        ),
        "wards": pd.DataFrame({"ward": names, "beds": [40, 25, 60]}),
    }


def main() -> None:
    """Ask four things of the clinic."""
    with dpsql.connect(clinic(), policy=POLICY, ledger=":memory:", analyst="ana") as db:
        stays = "SELECT ward, count(*) AS stays, avg(days) AS days FROM stays GROUP BY ward ORDER BY stays DESC"
        answer = db.query(stays)
        print(answer.df(), answer.intervals(0.95), f"cost: {answer.cost} of your budget", sep="\n\n", end="\n\n")

        print("The same again is free:", db.query(stays).cost, end="\n\n")

        per_bed = (
            f"SELECT w.ward, s.stays / w.beds AS stays_per_bed FROM ({stays}) AS s JOIN wards AS w ON s.ward = w.ward"
        )
        print(
            "Public tables may be joined above the aggregate, again free:", db.query(per_bed).df(), sep="\n", end="\n\n"
        )

        try:
            db.query("SELECT patient, days FROM stays")
        except dpsql.Error as refusal:
            print(refusal, end="\n\n")

        print(db.budget())


if __name__ == "__main__":
    main()
