"""HTTP connections: parsing, limits on bytes and time, TLS, and requests for an application."""
