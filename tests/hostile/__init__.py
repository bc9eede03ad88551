"""Odd conversations over raw sockets, and a server of its own that has to stand them."""
