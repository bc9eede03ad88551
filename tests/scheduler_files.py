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


def _fit(kind: str = "", **strategy: Any) -> Tree:
    typed = {"type": kind} if kind else {}
    return _args("NodeResourcesFit", {"scoringStrategy": {**typed, **strategy}})


def _weighing(cpu: int) -> list[Tree]:
    return [{"name": "cpu", "weight": cpu}]


def _spread(*constraints: Tree, of: str = "List") -> Tree:
    args = {"defaultConstraints": [*constraints], "defaultingType": of}
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
    "a duration that is null": {"leaderElection": {"leaderElect": False, "leaseDuration": None}},
    "a timeout that is null": _others({"httpTimeout": None}),
    "a duration in days": _others({"httpTimeout": "1d"}),
    "a list that is an object": {"extenders": {"urlPrefix": URL}},
    "a number beyond 32 bits": {"parallelism": 2**31},
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
    "resourceLock endpointsleases": _elected(resourceLock="endpointsleases"),
    "a lease no longer than its renewal": _elected(leaseDuration="10s", renewDeadline="10s"),
    "a renewal no longer than 1.2 tries": _elected(renewDeadline="2400ms", retryPeriod="2s"),
    "a try that takes no time": _elected(retryPeriod="-1s"),
    "a lease below 0": _elected(leaseDuration="-15s"),
    "parallelism 0": {"parallelism": 0},
    "parallelism below 0": {"parallelism": -1},
    "a first backoff of 0": {"podInitialBackoffSeconds": 0},
    "a longest backoff below the first": {
        "podInitialBackoffSeconds": 20,
        "podMaxBackoffSeconds": 10,
    },
    "a longest backoff below the default of the first": {"podMaxBackoffSeconds": 0},
    "more than 100 percent": {"percentageOfNodesToScore": 101},
    "more than 100 percent in a profile": _profile(percentageOfNodesToScore=200),
    "a burst below 0": {"clientConnection": {"burst": -1}},
    "two profiles of one name": {"profiles": [{"schedulerName": PROFILE}] * 2},
    "two profiles, one without a name": {"profiles": [{"schedulerName": PROFILE}, {}]},
    "a profile of no name": {"profiles": [{"schedulerName": ""}]},
    "a queue order in one profile alone": {
        "profiles": [
            {"schedulerName": PROFILE, "plugins": {"queueSort": _enabled("PrioritySort")}},
            {"schedulerName": "other"},
        ]
    },
    "no queue order": _plugins(queueSort=_disabled("*")),
    "no plugin at all": _plugins(multiPoint=_disabled("*")),
    "no plugin that binds": _plugins(bind=_disabled("DefaultBinder")),
    "a plugin that kube-scheduler no longer has": _plugins(
        score=_enabled("NodeResourcesMostAllocated", weight=5)
    ),
    "a plugin that is invalid in v1": _plugins(filter=_enabled("EBSLimits")),
    "a plugin that there never was": _plugins(multiPoint=_enabled("Foo")),
    "a plugin of kubextend": _plugins(multiPoint=_enabled("Coscheduling")),
    "a plugin at a point that it does not have": _plugins(filter=_enabled("ImageLocality")),
    "a plugin that weighs less than 0": _plugins(score=_enabled("ImageLocality", weight=-1)),
    "a plugin twice": _plugins(score=_enabled("ImageLocality", "ImageLocality")),
    "a plugin twice by multiPoint": _plugins(multiPoint=_enabled("NodeName", "NodeName")),
    "arguments twice": _profile(pluginConfig=[{"name": "NodeAffinity", "args": {}}] * 2),
    "arguments of a plugin that is invalid in v1": _args("CinderLimits", {}),
    "arguments that there are not": _args("NodeResourcesFit", {"scoringStrategies": {}}),
    "arguments of another kind": _args("NodeResourcesFit", {"kind": "NodeAffinityArgs"}),
    "arguments that are a list": _args("NodeResourcesFit", []),
    "a strategy that there is not": _fit("Most"),
    "a strategy of no type": _fit(resources=[]),
    "a resource that weighs 101": _fit("LeastAllocated", resources=_weighing(101)),
    "a resource that weighs less than 0": _fit("MostAllocated", resources=_weighing(-1)),
    "a ratio without a shape": _fit(_RATIO),
    "a shape that falls": _fit(_RATIO, requestedToCapacityRatio={"shape": _SHAPE[::-1]}),
    "a ratio beside another type": _fit(
        "MostAllocated", requestedToCapacityRatio={"shape": _SHAPE}
    ),
    "a group of resources with a slash": _args(
        "NodeResourcesFit", {"ignoredResourceGroups": ["a.example/x"]}
    ),
    "a balanced resource that weighs 2": _args(
        "NodeResourcesBalancedAllocation", {"resources": _weighing(2)}
    ),
    "a balanced resource twice": _args(
        "NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}
    ),
    "a binding timeout below a second": _args("DynamicResources", {"bindingTimeout": "500ms"}),
    "an entry without a name": _plugins(filter={"enabled": [{"weight": 3}]}),
    "an entry that is a text": _plugins(filter={"enabled": ["NodeName"]}),
    "an affinity that weighs 101": _args("InterPodAffinity", {"hardPodAffinityWeight": 101}),
    "no candidates for preemption": _args(
        "DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}
    ),
    "default constraints of the system": _spread(_SPREAD, of="System"),
    "a default constraint twice": _spread(_SPREAD, _SPREAD),
    "a default constraint with a selector": _spread({**_SPREAD, "labelSelector": {}}),
    "a volume bound in less than no time": _args("VolumeBinding", {"bindTimeoutSeconds": -1}),
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
# `check` knows the newest rules; before this version kube-scheduler starts with the file.
REFUSED_SINCE: Final = {"a ratio beside another type": "1.36"}
CASES: Final = (
    *(Case(name, False, change) for name, change in _FAILS.items()),
    *(Case(name, True, change) for name, change in _STARTS.items()),
)
