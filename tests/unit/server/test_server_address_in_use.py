"""An address that another process listens on is told with what to change."""

import socket
from dataclasses import replace

import pytest

from kubextend.errors import KubextendError
from kubextend.metrics import Metrics
from kubextend.server import Health, Listener, Service, health_application


def test_a_port_in_use_is_told_with_the_fields_and_the_options_that_change_it() -> None:
    free = Listener(health_application(Health(), Metrics()), "127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        verbs = replace(free, port=taken.getsockname()[1])
        with pytest.raises(KubextendError) as of_verbs:
            Service(verbs, Health()).run()
        probes = replace(verbs, name="health port")
        with pytest.raises(KubextendError) as of_probes:
            Service(free, Health(), probes=probes).run()
    fields = "another address or port in the section server of the configuration"
    assert str(of_verbs.value).endswith(f"{fields}, or with --host or --port")
    # No option changes server.healthPort.
    assert str(of_probes.value).endswith(fields)
