"""One connection: its parser, its limits on bytes and time, its TLS, and its requests for ASGI."""
