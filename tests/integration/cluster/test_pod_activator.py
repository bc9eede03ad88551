from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from cluster_world import Clock, Held, unlabelled
from scripted_api import Request, ScriptedApi, lost_request, refusing

from kubextend.cluster import Activator
from kubextend.cluster.write_queue import WriteStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod


@dataclass
class Parked:
    """What the activator reads of a pod."""

    name: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


def parked(*names: str) -> list[Pod]:
    return [Parked(name) for name in names]  # type: ignore[misc]


def patches(api: ScriptedApi) -> list[bytes]:
    return [body for kind, _, _, body in api.requests if kind == "patch"]


@pytest.fixture
def activator(cluster: Cluster) -> Iterator[Activator]:
    made = Activator(cluster)
    yield made
    made.stop()


def test_a_parked_pod_gets_a_condition_of_ours_and_keeps_the_others(
    api: ScriptedApi, activator: Activator, eventually: Callable[..., None]
) -> None:
    api.put_pod("web", "uid-web")
    activator.activate(parked("web"))
    eventually(lambda: activator.stats.sent == 1)
    _, path, headers, body = api.requests[-1]
    assert path == "/api/v1/namespaces/default/pods/web/status"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    patch = json.loads(body)
    assert patch["metadata"] == {"uid": "uid-web"}
    (condition,) = patch["status"]["conditions"]
    assert condition["type"] == "kubextend.dev/Activated"
    assert condition["status"] == "True"
    assert condition["reason"] == "AskedToTryAgain"
    # The condition stays on the pod, so it says only what stays true.
    said = r"kubextend asked kube-scheduler at 20\d\d-[-\dT:.]+\+00:00 to try this pod again"
    assert re.fullmatch(said, condition["message"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", condition["lastTransitionTime"])


def test_a_pod_is_patched_at_most_once_a_second_and_every_patch_is_a_change(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    clock = Clock()
    activator = Activator(cluster, clock=clock)

    def next_ones(*names: str) -> list[str]:
        """The UIDs of the pods that are patched from now on, once these are."""
        for name in names:
            api.put_pod(name, f"uid-{name}")
        before = api.counts["patch"]
        activator.activate(parked(*names))
        eventually(lambda: activator.stats.sent == before + len(names))
        return [json.loads(body)["metadata"]["uid"] for body in patches(api)[before:]]

    assert next_ones("web") == ["uid-web"]
    for _ in range(50):
        activator.activate(parked("web"))
    clock.pass_s(0.75)
    assert next_ones("one", "two") == ["uid-one", "uid-two"]
    clock.pass_s(0.25)
    api.put_pod("three", "uid-three")
    # Makes the thread look at the clock again.
    activator.activate(parked("three"))
    eventually(lambda: activator.stats.sent == 5)
    activator.stop()
    bodies = [json.loads(body) for body in patches(api)]
    ours = [body for body in bodies if body["metadata"]["uid"] == "uid-web"]
    messages = [body["status"]["conditions"][0]["message"] for body in ours]
    assert len(messages) == len(set(messages)) == 2


def test_many_pods_are_patched_within_the_rate(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    names = [f"pod-{number}" for number in range(40)]
    for name in names:
        api.put_pod(name, f"uid-{name}")
    clock = Clock()

    class Few(Activator):
        burst = 10

    activator = Few(cluster, clock=clock)
    activator.activate(parked(*names))
    for sent in (10, 20, 30):
        eventually(lambda sent=sent: activator.stats.sent == sent)
        clock.is_read_again()
        assert activator.stats.sent == sent
        clock.pass_s(0.5)
    eventually(lambda: activator.stats.sent == 40)
    activator.stop()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (404, 'pods "web" not found'),
        (409, "the UID in the precondition does not match"),
        (422, 'Pod "web" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
    ],
)
def test_a_pod_that_is_gone_is_left_alone(
    api: ScriptedApi,
    activator: Activator,
    eventually: Callable[..., None],
    code: int,
    message: str,
) -> None:
    api.put_pod("web", "uid-web")
    api.fail("patch", refusing(code, "Gone", message))
    activator.activate(parked("web"))
    eventually(lambda: activator.stats.gone == 1)
    assert api.counts["patch"] == 1


@pytest.mark.parametrize(
    "fault",
    [refusing(500, "InternalError"), refusing(429, "TooMany", Retry_After="1"), lost_request],
)
def test_a_fault_that_passes_delays_the_patch(
    api: ScriptedApi,
    activator: Activator,
    eventually: Callable[..., None],
    fault: Callable[[Request], bool],
) -> None:
    api.put_pod("web", "uid-web")
    api.fail("patch", fault)
    activator.activate(parked("web"))
    eventually(lambda: activator.stats.sent == 1)
    assert api.counts["patch"] == 2


def test_a_refusal_for_good_is_counted_and_said_once(
    api: ScriptedApi,
    activator: Activator,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.fail("patch", *[refusing(403, "Forbidden", "cannot patch pods/status")] * 3)
    activator.activate(parked("a", "b", "c"))
    eventually(lambda: activator.stats.failed == 3)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("pods cannot be woken: PATCH /api/v1/namespaces/default/pods/a/status")
    assert said.endswith("403 cannot patch pods/status")


def test_a_pod_kept_without_labels_is_woken_and_so_are_those_behind_it(
    api: ScriptedApi, activator: Activator, eventually: Callable[..., None]
) -> None:
    for name in ("a", "large", "b"):
        api.put_pod(name, f"uid-{name}")
    activator.activate([*parked("a"), unlabelled("large"), *parked("b")])
    eventually(lambda: activator.stats.sent == 3)


class Unreadable:
    """A pod of which nothing but its name can be read."""

    namespace, name = "default", "odd"

    @property
    def uid(self) -> str:
        message = "no UID"
        raise RuntimeError(message)


def test_a_pod_that_cannot_be_woken_is_counted_and_named_and_those_behind_it_are_woken(
    api: ScriptedApi,
    activator: Activator,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd: Pod = Unreadable()  # type: ignore[assignment]
    for name in "ab":
        api.put_pod(name, f"uid-{name}")
    activator.activate([*parked("a"), odd, *parked("b")])
    assert activator.stats.dropped == 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "pod default/odd cannot be woken"
    eventually(lambda: activator.stats.sent == 2)


def test_a_slow_api_never_makes_the_caller_wait(
    api: ScriptedApi, activator: Activator, eventually: Callable[..., None]
) -> None:
    held = Held()
    api.fail("patch", held)
    api.put_pod("web", "uid-web")
    for _ in range(100):
        activator.activate(parked("web", "other"))
    assert activator.stats == WriteStats()
    held.go_on.set()
    eventually(lambda: (activator.stats.sent, activator.stats.gone) == (1, 1))


@pytest.mark.parametrize("name", ["", "..", "a/b", "web?dryRun=All", "UPPER"])
def test_what_is_no_name_is_not_sent(api: ScriptedApi, activator: Activator, name: str) -> None:
    activator.activate(parked(name))
    assert activator.stats.dropped == 1
    assert api.counts["patch"] == 0
