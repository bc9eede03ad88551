"""HTTP connections: TLS, parsing, limits on bytes and time, and calls of an ASGI application."""
