"""``kubextend serve`` as a process on a Kubernetes API that holds its answers, and held binds."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Held, ScriptedApi, scripted, write_kubeconfig
from tests.doors.sockets import Connection, Replica, eventually, posted, replica

pytestmark = pytest.mark.slow

PLUGIN = """
from kubextend.framework import Status

class Holds:
    name = "Holds"

    def permit(self, state, pod, node_name):
        return Status.wait(), 600.0
"""
FILTERS = {"enabled": [{"name": "HighCommPodFilter"}]}
# What is made once, for the first pods of all, is not theirs.
FIRST_PODS, PODS = 20, 200


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    """A Kubernetes API in real time, with a node."""
    with scripted() as made:
        made.put_node("n1")
        yield made


@pytest.fixture
def cluster(api: ScriptedApi, tmp_path: Path) -> dict[str, str]:
    write_kubeconfig(tmp_path / "kubeconfig", api.url, "a-token")
    return {"kubeconfig": str(tmp_path / "kubeconfig")}


def bind_request(number: int) -> bytes:
    names = {"PodName": f"pod-{number}", "PodNamespace": "default", "PodUID": f"uid-{number}"}
    return posted("/bind", json.dumps(names | {"Node": "n1"}).encode())


@pytest.mark.parametrize(
    ("drain_delay", "probes"), [("0s", ["/livez"]), ("20s", ["/readyz", "/livez"])]
)
def test_who_cuts_off_does_not_wait_for_a_binding_and_the_log_names_its_pod(
    api: ScriptedApi, cluster: dict[str, str], tmp_path: Path, drain_delay: str, probes: list[str]
) -> None:
    api.put_pod("pod-0", "uid-0")
    held = Held()
    api.fail("bind", held)
    sections: dict[str, Any] = {
        "cluster": cluster,
        "extender": {"bind": True},
        "server": {"drainDelay": drain_delay},
    }
    with replica(tmp_path, **sections) as served, Connection(served.url) as connection:
        eventually(lambda: served.status("/readyz") == 200)
        connection.send(bind_request(0))
        eventually(lambda: api.counts["bind"] == 1)
        for probe in probes:
            served.signal(signal.SIGTERM)
            eventually(lambda probe=probe: served.status(probe) != 200)  # type: ignore[misc]
        assert served.process.poll() is None
        served.signal(signal.SIGTERM)
        _, log = served.process.communicate(timeout=15)
        held.go_on.set()
    unknown = "asked to bind pod default/pod-0 to node n1: whether it is bound is not known"
    assert unknown in log
    assert served.process.returncode == 1


def of_process(served: Replica, line: str) -> int:
    """Return a number of the process, such as its threads or its resident memory in KB."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(status.partition(f"\n{line}:")[2].split()[0])


def test_200_waiting_binds_hold_no_thread_each_and_less_than_36_kb(
    api: ScriptedApi, cluster: dict[str, str], tmp_path: Path
) -> None:
    for number in range(FIRST_PODS + PODS):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    (tmp_path / "holds.py").write_text(PLUGIN)
    (tmp_path / "token").write_text("s3cret-and-long-enough")
    login = {"authorization": "Bearer s3cret-and-long-enough"}
    permit = {"enabled": [{"name": "Holds"}]}
    sections: dict[str, Any] = {
        "outOfTree": ["holds:Holds"],
        "cluster": cluster,
        "extender": {"permitMaxWait": "10m"},
        "server": {"waitingPods": {"tokenFile": str(tmp_path / "token")}},
        "profiles": [{"plugins": {"filter": FILTERS, "permit": permit}}],
    }
    with ExitStack() as stack:
        served = stack.enter_context(replica(tmp_path, **sections))
        client = stack.enter_context(Connection(served.url))
        eventually(lambda: served.status("/readyz") == 200)
        binds: list[Connection] = []

        def waiting() -> list[str]:
            items = json.loads(client.get("/waiting-pods", **login).body)["items"]
            return [item["uid"] for item in items]

        def hold_until(count: int) -> None:
            for pod in [*api.pods.values()][len(binds) : count]:
                asked = {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]}
                client.post("/filter", json.dumps(asked).encode())
                binds.append(stack.enter_context(Connection(served.url)))
                binds[-1].send(bind_request(len(binds) - 1))
            eventually(lambda: len(waiting()) == count)

        hold_until(FIRST_PODS)
        before_kb = of_process(served, "VmRSS")
        hold_until(FIRST_PODS + PODS)
        assert of_process(served, "Threads") < 100
        assert (of_process(served, "VmRSS") - before_kb) / PODS < 36
        assert api.counts["bind"] == 0
        for uid in waiting():
            assert client.post(f"/waiting-pods/{uid}/allow", b"", **login).status == 200
        assert {each.answer().body for each in binds} == {b'{"Error":""}'}
        assert api.counts["bind"] == FIRST_PODS + PODS
