"""The stages between which the conductor hands a query on: draft, release, answer, and the accounts that pay."""
