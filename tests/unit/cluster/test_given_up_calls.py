"""Calls to the Kubernetes API that are given up while their bytes are under way."""

from __future__ import annotations

import socket

import pytest
from kubernetes.client import Configuration

from kubextend.cluster.api_call import Call, UnreachableError
from kubextend.cluster.client import Cluster
from kubextend.cluster.credentials import Access


def test_the_connection_of_a_call_that_was_given_up_is_reset_so_that_nothing_is_sent_again() -> (
    None
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        configuration = Configuration(host=f"http://127.0.0.1:{server.getsockname()[1]}")
        cluster = Cluster(lambda: Access(configuration, ""))
        path = "/api/v1/namespaces/default/pods/p/binding"
        with pytest.raises(UnreachableError):
            cluster.request(Call("POST", path, 0.1, body={"kind": "Binding"}))
        connection, _ = server.accept()
        # An ordinary close would end what is received without an error.
        with connection, connection.makefile("rb") as received, pytest.raises(ConnectionResetError):
            received.read()
