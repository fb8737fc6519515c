"""Mechanisms and laws from the textbook that SQL answers do not use, each with its theorem and proof.

All of them are importable from `dpsql.mechanisms`.
"""
