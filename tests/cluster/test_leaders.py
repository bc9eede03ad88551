"""Two replicas on one API: who decides, from when on, and what the next leader knows."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import (
    Held,
    Running,
    ScriptedApi,
    SkippingTime,
    configuration,
    running,
    write_kubeconfig,
)
from tests.doors.scripted_requests import Request, refusing

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework import Status

Join = Callable[..., Running]

LABEL = "kubextend.dev/leader"
NOT_LEADER = "kubextend is not ready: this replica does not lead"
BEGUN = "kubextend is not ready: this replica has begun to lead, and its"
NOT_SEEN = f"{BEGUN} watch of pods has not caught up yet"
NOT_LABELLED = f"{BEGUN} pod has no label yet"
PROFILE = {"plugins": {"filter": {"enabled": [{"name": "OnePlace"}]}}}
SLOW = {"plugins": PROFILE["plugins"] | {"preBind": {"enabled": [{"name": "Slow"}]}}}


class OnePlace:
    """Lets one pod with the label ``app`` onto a node."""

    name = "OnePlace"
    needs_pods = True

    def filter(self, state: Any, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        del state, pod
        taken = any("app" in other.labels for other in node.pods)
        return Status.unschedulable("taken") if taken else None


class Slow:
    """Takes 12 s before each Binding, longer than a term without a renewal."""

    name = "Slow"

    def pre_bind(self, state: Any, pod: core.Pod, node_name: str) -> None:
        del state, pod, node_name
        time.sleep(12)


@pytest.fixture
def joins(api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Join]:
    """Start a replica in the pod ``first`` or ``second``; its token is the name of its pod."""
    api.put_node("n1")
    for name in ("first", "second"):
        api.put_pod(name, f"uid-{name}", phase="Running", labels={"is": "kubextend"})
    for name in ("one", "two"):
        api.put_pod(name, f"uid-{name}", labels={"app": "x"})
    with ExitStack() as replicas:

        def join(name: str, profile: Any = PROFILE) -> Running:
            monkeypatch.setenv("POD_NAMESPACE", "default")
            monkeypatch.setenv("POD_NAME", name)
            file = tmp_path / name
            write_kubeconfig(file, api.url, name)
            tree = configuration(file, profile, server={"lease": {}})
            return replicas.enter_context(running(tree, {"OnePlace": OnePlace, "Slow": Slow}))

        yield join


@pytest.fixture
def first(joins: Join, clock: SkippingTime, api: ScriptedApi) -> Running:
    """A replica that leads."""
    made = joins("first")
    clock.until(lambda: why(made, api) == "")
    return made


def why(replica: Running, api: ScriptedApi, pod: str = "two") -> str:
    """Return why a replica decides nothing; empty: it decides."""
    error: str = replica.filter(api.pods[pod], "n1")["Error"]
    return error


def labelled(api: ScriptedApi) -> list[str]:
    with api.changed:
        pods = [*api.pods.items()]
    return [name for name, pod in pods if pod["metadata"].get("labels", {}).get(LABEL)]


def holder(api: ScriptedApi) -> str:
    lease = api.lease or {"spec": {"holderIdentity": ""}}
    return str(lease["spec"]["holderIdentity"]).partition("_")[0]


def labels_set(api: ScriptedApi) -> list[str | None]:
    return [body["metadata"]["labels"][LABEL] for body in api.bodies("patch")]


def test_of_two_replicas_one_decides_and_both_are_ready(
    api: ScriptedApi, first: Running, joins: Join, clock: SkippingTime
) -> None:
    assert (holder(api), labelled(api)) == ("first", ["first"])
    second = joins("second")
    clock.until(lambda: second.ready()[0] == 200)
    clock.pass_s(60)
    assert first.ready()[0] == second.ready()[0] == 200
    assert why(second, api) == NOT_LEADER
    assert second.bind(api.pods["one"], "n1") == NOT_LEADER
    assert (first.sends_away(), second.sends_away()) == (False, True)
    assert (first.metric("leader"), second.metric("leader")) == (1, 0)
    assert first.bind(api.pods["one"], "n1") == ""
    assert labelled(api) == ["first"]
    # Removed and set, so that the label is a change that every watch shows.
    assert labels_set(api) == [None, None, "true", None]


def test_a_replica_that_could_not_decide_does_not_stand_for_election(
    api: ScriptedApi, joins: Join, clock: SkippingTime
) -> None:
    api.fail("list", *[refusing(503, "ServiceUnavailable")] * 40)
    replica = joins("first")
    clock.pass_s(20)
    assert (replica.ready()[0], api.counts["lease"]) == (503, 0)
    clock.until(lambda: why(replica, api) == "")
    assert holder(api) == "first"


def test_a_replica_in_a_pod_that_still_has_the_label_is_not_ready(
    api: ScriptedApi, joins: Join, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    """The container was restarted, and the process before led."""
    api.pods["first"]["metadata"]["labels"][LABEL] = "true"
    api.fail("patch", *[refusing(403, "Forbidden")] * 5)
    replica = joins("first")
    clock.pass_s(3)
    status, text = replica.ready()
    assert status == 503
    assert "[-]leader-label failed: the label kubextend.dev/leader is not yet removed" in text
    assert "grant patch on pods" in text
    assert api.counts["lease"] == 0
    clock.until(lambda: replica.ready()[0] == 200 and why(replica, api) == "")
    said = [each for each in caplog.messages if each.startswith("cannot set the label")]
    assert len(said) == 1
    assert said[0].endswith("403 Forbidden; grant patch on pods of this namespace")


def test_a_leader_without_its_label_decides_nothing_and_tries_again_each_second(
    api: ScriptedApi, joins: Join, clock: SkippingTime
) -> None:
    replica = joins("first")
    clock.until(lambda: api.counts["patch"] == 1)
    api.fail("patch", *[refusing(403, "Forbidden")] * 5)
    clock.until(lambda: holder(api) == "first")
    clock.pass_s(3)
    assert why(replica, api) == NOT_LABELLED
    clock.until(lambda: why(replica, api) == "")
    assert max(api.pauses("patch")) <= 1.1


def test_the_next_leader_decides_once_it_has_seen_what_the_one_before_bound(
    api: ScriptedApi, first: Running, joins: Join, clock: SkippingTime
) -> None:
    second = joins("second")
    clock.until(lambda: second.ready()[0] == 200)
    # From here on no watch shows anything.
    api.silent = True
    assert first.bind(api.pods["one"], "n1") == ""
    # A bind of the stand-in makes no event by itself.
    api.bind_pod("one")
    first.resign()
    clock.until(lambda: why(second, api) == NOT_SEEN)
    assert first.ready()[0] == 503
    assert why(first, api) == NOT_LEADER
    assert second.bind(api.pods["two"], "n1") == NOT_SEEN
    api.silent = False
    api.bookmark()
    clock.until(lambda: why(second, api) == "")
    assert second.filter(api.pods["two"], "n1")["FailedNodes"] == {"n1": "taken"}
    assert second.bind(api.pods["two"], "n1") == "taken"
    assert api.pods["two"]["spec"] == {}


def test_a_leader_that_is_cut_off_decides_nothing_once_its_lease_may_lapse(
    api: ScriptedApi, first: Running, joins: Join, clock: SkippingTime
) -> None:
    second = joins("second")
    clock.pass_s(10)
    api.fail("bind", Held())
    errors = first.bind_beside(api.pods["one"], "n1")
    clock.pass_s(1)
    api.cut_off.add("first")
    lost_s = clock.now_s
    clock.until(lambda: why(first, api) == NOT_LEADER)
    assert clock.now_s - lost_s <= 10
    # What it had begun is given up, before another replica decides.
    clock.pass_s(1)
    assert len(errors) == 1
    assert errors[0]
    assert why(second, api) == NOT_LEADER
    clock.until(lambda: why(second, api) == "")
    assert clock.now_s - lost_s + 2 >= 15
    assert clock.now_s - lost_s <= 20
    # The label stays while the API cannot be reached, so this pod must get no calls.
    status, text = first.ready()
    assert status == 503
    assert "the label kubextend.dev/leader is not yet removed from pod default/first: PATCH" in text
    api.cut_off.clear()
    clock.until(lambda: first.ready()[0] == 200)
    assert labelled(api) == ["second"]
    assert why(first, api) == NOT_LEADER


def test_a_lead_that_was_lost_and_won_again_is_a_new_one(
    api: ScriptedApi, first: Running, clock: SkippingTime
) -> None:
    api.cut_off.add("first")
    clock.pass_s(30)
    before = len(labels_set(api))
    api.cut_off.clear()
    api.silent = True
    clock.until(lambda: why(first, api) == NOT_SEEN)
    # The label was there all the time, and its second setting is a change all the same.
    assert labels_set(api)[before:][-2:] == [None, "true"]
    api.silent = False
    api.bookmark()
    clock.until(lambda: why(first, api) == "")


def test_a_bind_is_given_up_though_its_leader_leads_again_a_moment_after_the_lapse(
    api: ScriptedApi, joins: Join, clock: SkippingTime
) -> None:
    first = joins("first", SLOW)
    clock.until(lambda: why(first, api) == "")
    asked, labels = api.counts["lease"], len(labels_set(api))

    def off_beat(_: Request) -> bool:
        """Keep the end of the term off the moments at which the leader's thread looks."""
        time.sleep(0.05)
        return False

    api.fail("lease", off_beat)
    clock.until(lambda: api.counts["lease"] == asked + 2)
    ends_s = clock.now_s + 10

    def late(request: Request) -> bool:
        """Answer no renewal before 10 ms after the end of the term."""
        if clock.now_s < ends_s - 4:
            request.cut()
            return True
        time.sleep(max(0.0, ends_s + 0.01 - clock.now_s))
        return False

    api.fail("lease", *[late] * 20)
    errors = first.bind_beside(api.pods["one"], "n1")
    clock.until(lambda: errors)
    assert labels_set(api)[labels:] == [None, "true"]
    assert errors == ["this replica does not lead"]
    assert api.counts["bind"] == 0


def test_a_leader_that_resigns_lets_its_binds_end_and_then_gives_the_lease_back(
    api: ScriptedApi, first: Running, joins: Join, clock: SkippingTime
) -> None:
    second = joins("second")
    held = Held()
    api.fail("bind", held)
    errors = first.bind_beside(api.pods["one"], "n1")
    clock.until(lambda: api.counts["bind"])
    first.resign()
    clock.pass_s(2)
    assert why(first, api) == NOT_LEADER
    assert (holder(api), labelled(api)) == ("first", [])
    held.go_on.set()
    clock.until(lambda: errors)
    assert errors == [""]
    clock.until(lambda: holder(api) == "second")
    clock.until(lambda: why(second, api) == "")


def test_a_leader_that_cannot_remove_its_label_gives_the_lease_back_all_the_same(
    api: ScriptedApi, first: Running, clock: SkippingTime
) -> None:
    api.fail("patch", *[refusing(503, "ServiceUnavailable")] * 99)
    first.resign()
    clock.pass_s(5)
    assert labelled(api) == ["first"]
    assert first.ready()[0] == 503
    assert holder(api) == ""


@pytest.mark.parametrize("binding", [False, True])
def test_a_leader_that_ends_keeps_the_lease_until_it_lapses_if_a_pod_may_be_bound(
    api: ScriptedApi, first: Running, clock: SkippingTime, binding: bool
) -> None:
    held = Held()
    if binding:
        api.fail("bind", held)
        said = first.bind_beside(api.pods["one"], "n1")
        clock.until(lambda: api.counts["bind"])
    first.stop()
    assert (holder(api), labelled(api)) == ("first" if binding else "", [])
    assert first.metric("leader") == 0
    if binding:
        held.go_on.set()
        # A bind that is under way at the end would keep the election's thread in later tests.
        clock.until(lambda: said)


def test_a_process_that_does_not_know_its_pod_elects_nobody(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    tree = configuration(kubeconfig, PROFILE, server={"lease": {}})
    with pytest.raises(ClusterError, match="set POD_NAME and POD_NAMESPACE"):
        Running(tree, {"OnePlace": OnePlace}).start()
