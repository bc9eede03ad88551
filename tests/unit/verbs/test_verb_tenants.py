"""What a tenant does to his own pods changes no answer for the pods of others."""

import json
from typing import Any

from verb_world import Clock, Pods, Watched, names_request, node, pod

from kubextend import core
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.metrics import Metrics
from kubextend.plugins.coscheduling import Coscheduling, CoschedulingArgs
from kubextend.profile import BindingPlugins, PluginLimits, Profile, Profiles, WaitingPods
from kubextend.testing.stand_ins import ListedObjects
from kubextend.verbs import Verbs
from make_verbs import make_verbs

GANG = {
    "scheduling.x-k8s.io/pod-group": "g",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
}
TOO_MANY = {f"k{number}": "v" for number in range(5000)}


def verbs_with_gangs(pods: Pods) -> Verbs:
    waiting, watched = WaitingPods(), Watched().listing(node("n"))
    informers = ListedObjects(Coscheduling.informers)
    handle = Handle(waiting, ClusterPorts(nodes=watched, pods=pods, informers=informers))
    gangs = Coscheduling(CoschedulingArgs(), handle)
    profile = Profile(
        "default-scheduler",
        pre_filter=[gangs],
        post_filter=[gangs],
        binding=BindingPlugins(reserve=[gangs], permit=[gangs]),
        pods=pods.store.snapshot,
    )
    return make_verbs(
        Profiles.of([profile]),
        watched=watched,
        pods=pods,
        informers=informers,
        metrics=Metrics(),
        waiting_pods=waiting,
        limits=PluginLimits(Clock()),
    )


def filtered(verbs: Verbs, of: Any) -> Any:
    return json.loads(bytes(verbs.filter(names_request(["n"], of))))


def test_pods_too_large_to_be_kept_in_three_namespaces_do_not_stop_gangs_elsewhere() -> None:
    pods = Pods(store=core.PodStore(max_pod_bytes=64 << 10))
    verbs = verbs_with_gangs(pods)
    pods.showing(*(pod(f"large-{n}", TOO_MANY, namespace=f"tenant-{n}") for n in range(3)))
    pods.showing(*(pod(name, GANG) for name in "ab"))
    for n in range(9):
        said = filtered(verbs, pod(f"g{n}", GANG, namespace=f"tenant-{n % 3}"))
        assert said["Error"] == ""
        assert f"pod tenant-{n % 3}/large-{n % 3} is kept" in str(said)
        assert said["NodeNames"] in (None, [])
    for name, labels in (("a", GANG), ("alone", {})):
        said = filtered(verbs, pod(name, labels))
        assert (said["Error"], said["NodeNames"]) == ("", ["n"])
