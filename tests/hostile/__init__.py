"""Tests of hostile clients: odd requests over raw sockets, and attacks that fill memory."""
