"""Checks every row of the table of faults, and writes what came of it as one report."""
