"""Files for kube-scheduler, and whether an unmodified kube-scheduler starts with each.

The verdicts are those of kube-scheduler 1.34 to 1.37, which tests/e2e runs with the same files.
"""

import copy
from typing import Any, Final, NamedTuple

PROFILE: Final = "gang-scheduler"
URL: Final = "http://127.0.0.1:8888"
Tree = dict[str, Any]

FILTER: Final[Tree] = {
    "urlPrefix": URL,
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "httpTimeout": "2s",
    "nodeCacheCapable": True,
}
_BIND: Final = {"bindVerb": "bind", "httpTimeout": "2m0s", "nodeCacheCapable": True}
BIND: Final[Tree] = {"urlPrefix": URL, **_BIND}
_COSCHEDULING: Final = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
CONFIGURATION: Final[Tree] = {
    "apiVersion": "kubextend.dev/v1alpha1",
    "kind": "ExtenderConfiguration",
    "cluster": {},
    "profiles": [{"schedulerName": PROFILE, "plugins": _COSCHEDULING}],
}
_BASE: Final[Tree] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "percentageOfNodesToScore": 100,
    "profiles": [{"schedulerName": PROFILE}],
    "extenders": [FILTER, BIND],
}


class Case(NamedTuple):
    """A change of a file that fits, and whether kube-scheduler starts with the changed file."""

    name: str
    starts: bool
    change: Tree

    def file(self, kubeconfig: str) -> Tree:
        """Return the changed file."""
        tree = copy.deepcopy(_BASE | self.change)
        tree["clientConnection"] = {"kubeconfig": kubeconfig, **tree.get("clientConnection", {})}
        return tree


def _others(*entries: Tree) -> Tree:
    other = {"urlPrefix": "http://127.0.0.1:9443", "filterVerb": "filter", "weight": 1}
    return {"extenders": [*(other | entry for entry in entries), FILTER, BIND]}


def _managing(*names: str) -> Tree:
    return {"managedResources": [{"name": name} for name in names]}


def _profile(**fields: Any) -> Tree:
    return {"profiles": [{"schedulerName": PROFILE, **fields}]}


def _plugins(**points: Any) -> Tree:
    return _profile(plugins=points)


def _enabled(*names: str, **fields: Any) -> Tree:
    return {"enabled": [{"name": name, **fields} for name in names]}


def _disabled(*names: str) -> Tree:
    return {"disabled": [{"name": name} for name in names]}


def _args(name: str, args: Any) -> Tree:
    return _profile(pluginConfig=[{"name": name, "args": args}])


def _weighing(cpu: int) -> list[Tree]:
    return [{"name": "cpu", "weight": cpu}]


def _spread(*constraints: Tree) -> Tree:
    args = {"defaultConstraints": [*constraints], "defaultingType": "List"}
    return _args("PodTopologySpread", args)


def _elected(**fields: Any) -> Tree:
    return {"leaderElection": {"leaderElect": True, "resourceName": "files", **fields}}


_SHAPE: Final = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
_RATIO: Final = "RequestedToCapacityRatio"
_ZONE: Final = "topology.kubernetes.io/zone"
_SPREAD: Final = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
_OTHER: Final = {"urlPrefix": "http://127.0.0.1:9443"}
_FAILS: Final[dict[str, Tree]] = {
    "a field that there is not": {"podMaxBackoff": 3},
    "a field in another case": {"PodMaxBackoffSeconds": 30},
    "plugins at the top": {"plugins": {}},
    "a field that an extender does not have": _others({"timeout": "2s"}),
    "a field that an extension point does not have": _plugins(filter={"disable": []}),
    "an extension point that there is not": _plugins(filters={"enabled": []}),
    "a number that is a text": {"parallelism": "16"},
    "a truth that is a text": {"leaderElection": {"leaderElect": "false"}},
    "a duration that is a number": _others({"httpTimeout": 2}),
    "a duration in days": _others({"httpTimeout": "1d"}),
    "a list that is an object": {"extenders": {"urlPrefix": URL}},
    "another kind": {"kind": "KubeSchedulerPolicy"},
    "an apiVersion that there is not": {"apiVersion": "kubescheduler.config.k8s.io/v2"},
    "another extender binds, too": _others({"bindVerb": "bind"}),
    "two other extenders bind": {"extenders": [FILTER, BIND, {**_OTHER, "bindVerb": "b"}]},
    "two extenders manage one resource": _others(
        _managing("a.example/x"), {"urlPrefix": "http://127.0.0.1:9444", **_managing("a.example/x")}
    ),
    "an extender manages a resource twice": _others(_managing("a.example/x", "a.example/x")),
    "a managed resource without a domain": _others(_managing("gpu")),
    "a managed resource of Kubernetes": _others(_managing("kubernetes.io/gpu")),
    "a managed resource that is no name": _others(_managing("a.example/x y")),
    "a managed resource that is a quota": _others(_managing("requests.a.example/x")),
    "an extender scores with weight 0": _others({"prioritizeVerb": "p", "weight": 0}),
    "an extender verifies nothing and names a CA": _others(
        {"tlsConfig": {"insecure": True, "caData": "YQ=="}, "enableHTTPS": True}
    ),
    "more than 100 percent": {"percentageOfNodesToScore": 101},
    "more than 100 percent in a profile": _profile(percentageOfNodesToScore=200),
    "two profiles of one name": {"profiles": [{"schedulerName": PROFILE}] * 2},
    "two profiles, one without a name": {"profiles": [{"schedulerName": PROFILE}, {}]},
    "a profile of no name": {"profiles": [{"schedulerName": ""}]},
    "a queue order in one profile alone": {
        "profiles": [
            {"schedulerName": PROFILE, "plugins": {"queueSort": _enabled("PrioritySort")}},
            {"schedulerName": "other"},
        ]
    },
    "a plugin of kubextend": _plugins(multiPoint=_enabled("Coscheduling")),
    "an entry that is a text": _plugins(filter={"enabled": ["NodeName"]}),
}
_STARTS: Final[dict[str, Tree]] = {
    "nothing": {},
    "another extender": _others({}),
    "two extenders that manage two resources": _others(
        _managing("a.example/x"), _managing("a.example/y")
    ),
    "an ignored resource": _others(
        {"managedResources": [{"name": "a.example/x", "ignoredByScheduler": True}]}
    ),
    "an extender that has a weight of 0 and does not score": _others({"weight": 0}),
    "an elected scheduler": _elected(),
    "an elected scheduler with times of its own": _elected(
        leaseDuration="30s", renewDeadline="20s", retryPeriod="5s", resourceLock="leases"
    ),
    "a lock of no kind where nobody is elected": {
        "leaderElection": {"leaderElect": False, "resourceLock": "endpoints", "leaseDuration": "1s"}
    },
    "a number that is null": {"parallelism": None},
    "a percentage in a profile": _profile(percentageOfNodesToScore=100),
    "backoffs that are equal": {"podInitialBackoffSeconds": 7, "podMaxBackoffSeconds": 7},
    "a calm client": {"clientConnection": {"qps": 0.5, "burst": 0, "contentType": "x/y"}},
    "a plugin that weighs 0": _plugins(score=_enabled("ImageLocality", weight=0)),
    "a filter that weighs less than 0": _plugins(filter=_enabled("NodeName", weight=-1)),
    "a plugin by its point and by multiPoint": _plugins(
        multiPoint=_enabled("NodeAffinity", weight=9), score=_enabled("NodeAffinity", weight=5)
    ),
    "a disabled plugin that there never was": _plugins(filter=_disabled("Foo", "Coscheduling")),
    "no plugins but its own binder and order": _plugins(
        multiPoint=_disabled("*") | _enabled("PrioritySort", "DefaultBinder")
    ),
    "a queue order": _plugins(queueSort=_enabled("PrioritySort")),
    "its own order, by its point alone": _plugins(
        multiPoint=_disabled("PrioritySort"), queueSort=_enabled("PrioritySort")
    ),
    "plugins that are null": _profile(plugins=None, pluginConfig=None),
    "a plugin that runs anyway": _plugins(multiPoint=_enabled("DynamicResources")),
    "arguments of an order": _args("PrioritySort", {"a": 1}),
    "times of dynamic resources": _args("DynamicResources", {"filterTimeout": "5s"}),
    "arguments of an unknown plugin": _args("Foo", {"any": ["thing"]}),
    "arguments that are null": _args("NodeResourcesFit", None),
    "arguments of its own kind": _args(
        "NodeResourcesFit",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesFitArgs",
            "ignoredResources": ["a.example/x"],
            "scoringStrategy": {
                "type": _RATIO,
                "resources": [*_weighing(3), {"name": "memory"}],
                "requestedToCapacityRatio": {"shape": _SHAPE},
            },
        },
    ),
    "default constraints of a list": _spread(_SPREAD),
    "arguments of the other plugins": _profile(
        pluginConfig=[
            {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 0}},
            {"name": "InterPodAffinity", "args": {"ignorePreferredTermsOfExistingPods": True}},
            {"name": "NodeAffinity", "args": {"addedAffinity": {}}},
            {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "cpu"}]}},
            {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 60}},
        ]
    ),
}
CASES: Final = (
    *(Case(name, False, change) for name, change in _FAILS.items()),
    *(Case(name, True, change) for name, change in _STARTS.items()),
)
