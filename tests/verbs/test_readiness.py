"""What each verb answers while something that its profile looks at is missing."""

from itertools import product
from typing import Any

import pytest
from tests.doors.wire import Plugin, Wire, node, pod, raises

from kubextend.errors import NotListedError

NODES = "kubextend is not ready: the nodes are not listed yet"
PODS = "kubextend is not ready: the pods are not listed yet"
STARTED = "kubextend is not ready: not started yet: Everywhere"


class Everywhere(Plugin):
    """A plugin at many points, which counts what it is asked."""

    def __init__(self, *, needs_pods: bool = False) -> None:
        self.asked = 0
        methods = {"filter": self._ask, "score": self._score, "pre_bind": self._ask}
        super().__init__("Everywhere", needs_pods=needs_pods, start=lambda: None, **methods)

    def _ask(self, *_: Any) -> None:
        self.asked += 1

    def _score(self, *_: Any) -> int:
        self.asked += 1
        return 70


def wire_with(
    plugin: Plugin, *, nodes: bool = True, pods: bool = True, started: bool = True
) -> Wire:
    # The plugin of another profile keeps that profile waiting alone.
    other = Plugin("Other", filter=lambda *_: None, start=lambda: None)
    profiles = {"default-scheduler": [plugin], "other": [other]}
    wire = Wire(profiles=profiles, nodes=["n"], pods=[pod()], started=started)
    wire.nodes.synced, wire.pods.synced = nodes, pods
    return wire


def missing(nodes: bool, pods: bool, started: bool, needs_pods: bool) -> str:
    """The rule: nodes first, pods where the profile needs them, then its own plugins."""
    if not nodes:
        return NODES
    if needs_pods and not pods:
        return PODS
    return "" if started else STARTED


@pytest.mark.parametrize("given", list(product([True, False], repeat=4)))
def test_a_verb_decides_only_when_all_is_there_that_its_profile_needs(
    given: tuple[bool, bool, bool, bool],
) -> None:
    nodes, pods, started, needs_pods = given
    plugin = Everywhere(needs_pods=needs_pods)
    wire = wire_with(plugin, nodes=nodes, pods=pods, started=started)
    if started:
        wire.until(lambda: "plugins-started ok" in wire.get("/readyz?verbose").body.decode())
    filtered = wire.filter(pod(), ["n"])
    scored = wire.prioritize(pod(), ["n"])
    victims = wire.preempt(pod(), {"n": ["u"]}).victims
    bound = wire.bind(pod(), "n")
    if why := missing(*given):
        assert (filtered.error, filtered.kept, filtered.rejected) == (why, [], {})
        assert (scored.json, victims, bound.error) == ([], {}, why)
        assert (plugin.asked, wire.binder.bound) == (0, {})
    else:
        assert (filtered.kept, scored.scores, victims) == (["n"], {"n": 7}, {"n": ["u"]})
        assert (bound.error, wire.binder.bound) == ("", {"uid-of-pod": "n"})


def test_a_plugin_that_counts_pods_waits_for_the_list_of_nodes_with_whole_nodes_too() -> None:
    wire = wire_with(Everywhere(needs_pods=True), nodes=False)
    assert wire.filter(pod(), whole=[node("n")]).error == NODES
    wire = wire_with(Everywhere(), nodes=False)
    assert wire.filter(pod(), whole=[node("n")]).kept == ["n"]


def test_readyz_names_the_same_conditions() -> None:
    wire = wire_with(Everywhere(needs_pods=True), nodes=False, pods=False, started=False)
    said = wire.get("/readyz?verbose")
    assert said.status == 503
    for text in (
        "[-]plugins-started failed: not started yet: Everywhere, Other",
        "[-]node-sync failed: the nodes are not listed yet",
        "[-]pod-sync failed: the pods are not listed yet",
    ):
        assert text in said.body.decode()
    wire.nodes.synced = wire.pods.synced = True
    wire.start()
    wire.until(lambda: wire.get("/readyz").status == 200)


GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
UNSERVED = f"the API serves no {GROUPS}"


def test_every_verb_names_a_resource_that_is_not_listed_and_calls_no_plugin() -> None:
    plugin = Everywhere()
    plugin.informers = (GROUPS,)
    wire = wire_with(plugin)
    wire.objects.unlisted.add(GROUPS)
    why = f"kubextend is not ready: {UNSERVED}"
    assert (wire.filter(pod()).error, wire.bind(pod(), "n").error) == (why, why)
    assert wire.prioritize(pod()).json == []
    assert wire.preempt(pod(), {"n": ["u"]}).victims == {}
    assert (plugin.asked, wire.binder.bound) == (0, {})
    assert f"informer-sync failed: {UNSERVED}" in wire.get("/readyz?verbose").body.decode()
    wire.objects.unlisted.clear()
    assert wire.filter(pod()).kept == ["n"]


def test_a_plugin_whose_resource_is_not_listed_is_left_out_where_it_may_be() -> None:
    reads = raises(NotListedError(UNSERVED))
    wire = Wire(Plugin("Reads", informers=[GROUPS], filter=reads), nodes=["n"], ignored=["Reads"])
    wire.objects.unlisted.add(GROUPS)
    assert wire.filter(pod()).kept == ["n"]
    assert wire.get("/readyz").status == 200
