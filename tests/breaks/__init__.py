"""Break the code in small ways, and check that tests notice (``make breaks``)."""
