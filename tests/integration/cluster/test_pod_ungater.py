from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from cluster_world import PATIENCE_S
from scripted_api import Request, ScriptedApi, lost_request, refusing

from kubextend.cluster import Fate, Ungater, ungate
from kubextend.cluster.ungater import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

GATE = "kubextend.dev/queue"


@dataclass
class Waiting:
    """What is read of a pod."""

    name: str
    namespace: str = "default"
    truncated: bool = False
    scheduling_group: str = ""

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


def waiting(*names: str) -> list[Pod]:
    return [Waiting(name) for name in names]  # type: ignore[misc]


@dataclass
class Ungating:
    """An ungater, whether it may, and what became of pods."""

    cluster: Cluster
    at_once: int = 1
    may: bool = True
    fates: dict[str, tuple[Fate, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ungater = Ungater(
            self.cluster,
            GATE,
            at_once=self.at_once,
            may=lambda: self.may,
            told=self._told,
            pauses=Pauses(first_s=0.01),
        )

    def _told(self, pod: Pod, fate: Fate, why: str) -> None:
        if fate is not Fate.REFUSED_ONCE:
            self.fates[pod.name] = (fate, why)

    def release(self, *names: str) -> None:
        for pod in waiting(*names):
            self.ungater.release(pod)

    def fate(self, name: str) -> Fate | None:
        return self.fates[name][0] if name in self.fates else None


@pytest.fixture
def ungating(cluster: Cluster) -> Iterator[Ungating]:
    made = Ungating(cluster)
    yield made
    made.ungater.stop()


def test_the_patch_takes_one_gate_off_one_pod_and_nothing_else(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    api.put_pod("web", "uid-web")
    ungating.release("web")
    eventually(lambda: ungating.fate("web") is Fate.RELEASED)
    kind, path, headers, body = api.requests[-1]
    assert kind == "patch"
    assert path == "/api/v1/namespaces/default/pods/web?fieldManager=kubextend-queue"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert json.loads(body) == {
        "metadata": {"uid": "uid-web"},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
    }


def test_no_answer_of_the_pod_itself_is_asked_for(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    api.put_pod("web", "uid-web")
    ungating.release("web")
    eventually(lambda: ungating.fate("web") is Fate.RELEASED)
    assert "as=PartialObjectMetadata" in api.requests[-1][2]["Accept"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lost_request, id="connection broken"),
        pytest.param(refusing(429, "TooManyRequests", Retry_After="0"), id="too many"),
        pytest.param(refusing(500, "InternalError"), id="a fault of the server"),
        pytest.param(
            refusing(409, "Conflict", "the object has been modified"), id="another writer"
        ),
    ],
)
def test_a_patch_is_sent_until_it_is_known_what_became_of_it(
    api: ScriptedApi,
    ungating: Ungating,
    eventually: Callable[..., None],
    fault: Callable[[Request], bool],
) -> None:
    api.put_pod("web", "uid-web")
    api.fail("patch", fault, fault)
    ungating.release("web")
    eventually(lambda: ungating.fate("web") is Fate.RELEASED)
    assert api.counts["patch"] == 3


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(refusing(404, "NotFound", 'pods "web" not found'), id="deleted"),
        pytest.param(
            refusing(422, "Invalid", 'Pod "web" is invalid: metadata.uid: Invalid value: "x"'),
            id="another pod of its name",
        ),
    ],
)
def test_a_pod_that_is_not_there_any_more_is_gone(
    api: ScriptedApi,
    ungating: Ungating,
    eventually: Callable[..., None],
    fault: Callable[[Request], bool],
) -> None:
    api.fail("patch", fault)
    ungating.release("web")
    eventually(lambda: ungating.fate("web") is Fate.GONE)
    assert api.counts["patch"] == 1


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            refusing(403, "Forbidden", "pods is forbidden"),
            "the API refuses to remove its gate: pods is forbidden; grant patch on pods",
        ),
        (
            refusing(422, "Invalid", "spec: Forbidden"),
            "the API refuses to remove its gate: spec: Forbidden",
        ),
        (
            refusing(409, "Conflict", "modified"),
            "the API refuses to remove its gate: modified",
        ),
    ],
)
def test_a_refusal_that_stays_says_why(
    api: ScriptedApi,
    ungating: Ungating,
    eventually: Callable[..., None],
    fault: Callable[[Request], bool],
    why: str,
) -> None:
    api.fail("patch", *[fault] * 9)
    ungating.release("web")
    eventually(lambda: "web" in ungating.fates)
    assert ungating.fates["web"] == (Fate.REFUSED, why)
    assert api.counts["patch"] == 6


def test_a_refusal_of_a_member_names_its_pod_group(
    api: ScriptedApi,
    ungating: Ungating,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.fail("patch", *[refusing(422, "Invalid", "spec: Forbidden")] * 9)
    ungating.ungater.release(Waiting("web", scheduling_group="training"))  # type: ignore[arg-type]
    eventually(lambda: "web" in ungating.fates)
    why = "the API refuses to remove its gate, for which its pod group training waits:"
    assert ungating.fates["web"] == (Fate.REFUSED, f"{why} spec: Forbidden")
    (record,) = (each for each in caplog.records if "is set aside" in each.message)
    assert record.message.startswith("pod default/web of pod group training is set aside: ")
    assert (record.pod, record.pod_group) == ("default/web", "default/training")  # type: ignore[attr-defined]


def test_what_an_api_forbids_while_it_starts_is_tried_again(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    api.put_pod("web", "uid-web")
    api.fail("patch", *[refusing(403, "Forbidden", "RBAC: not found")] * 5)
    ungating.release("web")
    eventually(lambda: "web" in ungating.fates)
    assert ungating.fate("web") is Fate.RELEASED


def test_nothing_is_sent_once_we_may_not_any_more(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    def lose(request: Request) -> bool:
        ungating.may = False
        return refusing(500, "InternalError")(request)

    api.put_pod("web", "uid-web")
    api.fail("patch", lose)
    ungating.release("web", "late")
    eventually(lambda: set(ungating.fates) == {"web", "late"})
    assert ungating.fate("web") is ungating.fate("late") is Fate.RETURNED
    assert api.counts["patch"] == 1


def test_a_pod_that_is_none_of_the_api_is_refused_without_a_call(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    ungating.release("../secrets/web")
    eventually(lambda: ungating.fate("../secrets/web") is Fate.REFUSED)
    assert api.counts["patch"] == 0


def test_as_many_patches_are_under_way_as_allowed(api: ScriptedApi, cluster: Cluster) -> None:
    names = [f"p{number}" for number in range(12)]
    under_way = most = 0
    lock = threading.Lock()

    def counting(request: Request) -> bool:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait(PATIENCE_S)
        with lock:
            under_way -= 1
        request.send(200, {})
        return True

    together = threading.Barrier(4)
    api.fail("patch", *[counting] * 12)
    ungating = Ungating(cluster, at_once=4)
    ungating.release(*names)
    ungating.ungater.finish()
    assert {ungating.fate(name) for name in names} == {Fate.RELEASED}
    assert most == 4


def test_nobody_waits_for_the_patch_of_a_large_pod(
    api: ScriptedApi, ungating: Ungating, eventually: Callable[..., None]
) -> None:
    answer = threading.Event()

    def slow(request: Request) -> bool:
        assert answer.wait(PATIENCE_S)
        return refusing(404, "NotFound")(request)

    api.fail("patch", slow)
    api.put_pod("web", "uid-web")
    ungating.ungater.release(Waiting("huge", truncated=True))  # type: ignore[arg-type]
    eventually(lambda: api.counts["patch"] == 1)
    ungating.release("web")
    eventually(lambda: ungating.fate("web") is Fate.RELEASED)
    assert ungating.fate("huge") is None
    answer.set()
    eventually(lambda: ungating.fate("huge") is Fate.GONE)


def test_all_gates_can_be_taken_off_at_once(api: ScriptedApi, cluster: Cluster) -> None:
    for name in ("a", "b"):
        api.put_pod(name, f"uid-{name}")
    api.fail("patch", lost_request, refusing(500, "InternalError"))
    fates = ungate(cluster, GATE, waiting("a", "b", "gone"))
    assert {pod.name: fate for pod, fate, _ in fates} == {
        "a": Fate.RELEASED,
        "b": Fate.RELEASED,
        "gone": Fate.GONE,
    }
