"""Private data frames: the verbs of pandas, each of them one private query, and no way to a row."""
