"""Small breaks of the code, and whether the tests notice them (``make mutants``)."""
