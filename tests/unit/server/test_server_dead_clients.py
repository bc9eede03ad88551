"""A connection whose client no longer answers, as when its machine died, ends by itself."""

import socket

from kubextend.metrics import Metrics
from kubextend.server import Health, Listener, health_application
from kubextend.server.http_service import _bound_socket

# Another kube-scheduler leads when the Lease of the dead one is over.
LEASE_S = 15


def test_the_kernel_ends_a_silent_connection_before_another_kube_scheduler_leads() -> None:
    listener = Listener(health_application(Health(), Metrics()), "127.0.0.1", 0)
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    with _bound_socket(listener) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s, every_s, probes = (
                accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options
            )
    assert idle_s + every_s * probes <= LEASE_S
