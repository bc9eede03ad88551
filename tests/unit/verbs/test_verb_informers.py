"""What the verbs answer while the objects that plugins read are not listed."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from verb_world import Binder, Pods, Watched, names_request, node, pod, preempt_request, watch_event

from kubextend.errors import NotListedError
from kubextend.framework.informer import Informer, Owner, Resource
from kubextend.profile import BindingPlugins, Profile, Profiles
from make_verbs import make_verbs

GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
WHY = f"the API serves no {GROUPS}"
BINDING = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}


class Source:
    """Informers that are synced or not."""

    def __init__(self) -> None:
        self.missing = [GROUPS]

    def of(self, resource: Resource, owner: Owner) -> Informer:
        raise NotImplementedError

    def why_not_synced(self, names: Iterable[str]) -> str:
        return "; ".join(f"the API serves no {name}" for name in names if name in self.missing)


class Reads:
    """A plugin at points of all verbs, as one that reads its informer."""

    name = "Reads"
    informers = (GROUPS,)

    def __init__(self, source: Source) -> None:
        self._source = source
        self.asked = 0

    def filter(self, *_: Any) -> None:
        self._read()

    def score(self, *_: Any) -> int:
        self._read()
        return 7

    async def pre_bind(self, *_: Any) -> None:
        self._read()

    def _read(self) -> None:
        self.asked += 1
        if why := self._source.why_not_synced([GROUPS]):
            raise NotListedError(why)


class World:
    def __init__(self, *, ignored: bool = False, watched: bool = True) -> None:
        self.source, self.binder = Source(), Binder()
        self.plugin = Reads(self.source)
        pods = Pods(True)
        pods.store.apply(watch_event("ADDED", pod()))
        profile = Profile(
            "default-scheduler",
            filter=[self.plugin],
            score=[(self.plugin, 10)],
            binding=BindingPlugins(pre_bind=[self.plugin]),
            pods=pods.store.snapshot,
            ignored=frozenset({"Reads"} if ignored else ()),
        )
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=Watched(True).listing(node("n")),
            pods=pods,
            binder=self.binder,
            informers=self.source if watched else None,
        )

    def filtered(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(bytes(self.verbs.filter(names_request(["n"]))))
        return answer

    def not_ready(self) -> str:
        return self.verbs.readiness.conditions["informer-sync"]()


def test_every_verb_names_the_resource_and_calls_no_plugin() -> None:
    world = World()
    assert world.filtered()["Error"] == f"kubextend is not ready: {WHY}"
    assert json.loads(bytes(world.verbs.prioritize(names_request(["n"])))) == []
    preempted = json.loads(bytes(world.verbs.preempt(preempt_request({"n": ["u"]}))))
    assert preempted == {"NodeNameToMetaVictims": {}}
    bound = json.loads(asyncio.run(world.verbs.bind(json.dumps(BINDING).encode())))
    assert bound == {"Error": f"kubextend is not ready: {WHY}"}
    assert (world.plugin.asked, world.binder.bound, world.not_ready()) == (0, [], WHY)


def test_a_resource_that_appears_later_makes_the_verbs_decide() -> None:
    world = World()
    assert world.filtered()["Error"]
    world.source.missing.clear()
    assert world.filtered()["NodeNames"] == ["n"]
    assert world.not_ready() == ""


def test_a_plugin_that_may_be_left_out_is_left_out() -> None:
    world = World(ignored=True)
    assert world.filtered()["NodeNames"] == ["n"]
    assert world.plugin.asked == 1
    assert "informer-sync" not in world.verbs.readiness.conditions


@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_without_the_api_the_verbs_say_what_to_configure(verb: str) -> None:
    world = World(watched=False)
    why = f"plugins read {GROUPS}, which kubextend cannot watch: configure `cluster`"
    if verb == "filter":
        assert world.filtered()["Error"] == f"kubextend is not ready: {why}"
    else:
        bound = json.loads(asyncio.run(world.verbs.bind(json.dumps(BINDING).encode())))
        assert bound == {"Error": f"kubextend is not ready: {why}"}
