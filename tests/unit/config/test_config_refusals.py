"""What is wrong with a configuration is said with path, sentence, value and hint, all at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from config_world import KNOWN, Refusal, document, filter_profile

from kubextend import config
from kubextend.errors import ConfigError, Issue

FILTERS = "known filter plugins: HighCommPodFilter, LabelMatch, RdmaAware, test-plugin"
PLUGINS = f"known plugins: {', '.join(sorted(KNOWN))}"
OF_ONES_OWN = (
    "a plugin of your own: install its package beside kubextend, or name its class in outOfTree"
)
EXTENDER_FIELDS = (
    "known fields: bind, httpTimeout, ignorable, lastFilter, managedResources, maxHeldPods, "
    "maxHeldPodsPerNamespace, nodeCacheCapable, permitMaxWait, preemptGroups, tlsConfig, urlPrefix"
)
ZERO_WEIGHT = "kube-scheduler reads 0 as 1; to keep a plugin from running, do not enable it"
OPEN_HOST = (
    "set server.tls.certFile, keyFile and clientCAFile, or accept anyone with server.insecure: true"
)
URL_HINT = "such as http://127.0.0.1:8888 or https://kubextend.example.svc:8888"
UNITS = 'the units are ns, us, ms, s, m and h, such as "1m30s"'
LONG_DOMAIN = ".".join(["a" * 63] * 3 + ["a" * (254 - len("requests.") - 3 * 64)])
SPLIT = (
    "cannot be told to kube-scheduler together with bind: bind is an extender entry of its own, "
    "and no two entries may name the same resource"
)


def plugins(**points: Any) -> dict[str, Any]:
    return document(profiles=[{"plugins": points}])


def enabled(*entries: Any) -> dict[str, Any]:
    return {"enabled": list(entries)}


def named(*names: str) -> dict[str, Any]:
    return enabled(*({"name": name} for name in names))


def configured(name: str, entries: list[Any], point: str = "filter") -> dict[str, Any]:
    return document(profiles=[{"plugins": {point: named(name)}, "pluginConfig": entries}])


FIELDS = {
    "unknown field, one near": (
        document(extender={"nodeCacheCapabel": False}),
        Issue(
            "extender.nodeCacheCapabel",
            'unknown field "nodeCacheCapabel"',
            False,
            f"did you mean nodeCacheCapable? {EXTENDER_FIELDS}",
        ),
    ),
    "field in another case": (
        document(extender={"URLPrefix": "http://x"}),
        Issue(
            "extender.URLPrefix",
            'unknown field "URLPrefix"',
            "http://x",
            f"did you mean urlPrefix? {EXTENDER_FIELDS}",
        ),
    ),
    "a wait that no scheduler has": (
        document(extender={"permitMaxWait": "16m"}),
        Issue(
            "extender.permitMaxWait",
            "must be above 0 and at most 15m",
            "16m0s",
            "kube-scheduler's own limit is 15m",
        ),
    ),
    "a wait that is hardly too long": (
        document(extender={"permitMaxWait": "15m0.000000001s"}),
        Issue(
            "extender.permitMaxWait",
            "must be above 0 and at most 15m",
            "15m0.000000001s",
            "kube-scheduler's own limit is 15m",
        ),
    ),
    "no wait": (
        document(extender={"permitMaxWait": "0s"}),
        Issue(
            "extender.permitMaxWait",
            "must be above 0 and at most 15m",
            "0s",
            "kube-scheduler's own limit is 15m",
        ),
    ),
    "a host for health without its port": (
        document(server={"healthHost": "0.0.0.0"}),
        Issue("server.healthHost", "needs server.healthPort", "0.0.0.0"),
    ),
    "field in snake case": (
        document(server={"health_port": 1}),
        Issue(
            "server.health_port",
            'unknown field "health_port"',
            1,
            "did you mean healthPort? known fields: decisions, drainDelay, healthHost, "
            "healthPort, host, insecure, keepAliveSeconds, lease, maxBodyBytes, "
            "maxInFlightBytes, path, port, tls, waitingPods",
        ),
    ),
    "unknown field, none near": (
        document(cluster={"token": "x"}),
        Issue(
            "cluster.token",
            'unknown field "token"',
            "x",
            "known fields: context, kubeconfig",
        ),
    ),
    "unknown extension point": (
        plugins(fliter=named("HighCommPodFilter")),
        Issue(
            "profiles[0].plugins.fliter",
            'unknown field "fliter"',
            named("HighCommPodFilter"),
            "did you mean filter? known fields: bind, filter, multiPoint, permit, "
            "placementGenerate, placementScore, podGroupPostFilter, postBind, postFilter, "
            "preBind, preEnqueue, preFilter, preScore, queueSort, reserve, score",
        ),
    ),
    "text for a number": (
        document(server={"port": "8888"}),
        Issue("server.port", "expected a whole number, found a string", "8888"),
    ),
    "fraction for a number": (
        document(server={"port": 88.5}),
        Issue("server.port", "expected a whole number, found a number", 88.5),
    ),
    "number for a truth": (
        document(extender={"ignorable": 1}),
        Issue("extender.ignorable", "expected true or false, found a number", 1),
    ),
    "truth for a text": (
        document(server={"host": True}),
        Issue("server.host", "expected a string, found true or false", True),
    ),
    "list for an object": (
        document(server=[]),
        Issue(
            "server",
            "expected an object, found a list",
            [],
            "known fields: decisions, drainDelay, healthHost, healthPort, host, insecure, "
            "keepAliveSeconds, lease, maxBodyBytes, maxInFlightBytes, path, port, tls, waitingPods",
        ),
    ),
    "object for a list": (
        plugins(filter={"enabled": {"name": "HighCommPodFilter"}}),
        Issue(
            "profiles[0].plugins.filter.enabled",
            "expected a list, found an object",
            {"name": "HighCommPodFilter"},
            "begin each entry with -",
        ),
    ),
    "text for a list": (
        document(outOfTree="my_plugins:Mine"),
        Issue(
            "outOfTree",
            "expected a list, found a string",
            "my_plugins:Mine",
            "write [my_plugins:Mine]",
        ),
    ),
    "true for an object": (
        document(cluster=True),
        Issue(
            "cluster",
            "expected an object, found true or false",
            value=True,
            hint="write {} for the defaults; known fields: context, kubeconfig",
        ),
    ),
    "true for an object whose defaults switch nothing on": (
        document(guard=True),
        Issue(
            "guard",
            "expected an object, found true or false",
            value=True,
            hint="known fields: resources",
        ),
    ),
    "text for a number in args": (
        configured("LabelMatch", [{"name": "LabelMatch", "args": {"limit": "1m"}}]),
        Issue(
            "profiles[0].pluginConfig[0].args.limit",
            "expected a whole number, found a string",
            "1m",
        ),
    ),
    "name for a plugin entry": (
        plugins(filter={"enabled": ["HighCommPodFilter"]}),
        Issue(
            "profiles[0].plugins.filter.enabled[0]",
            "expected an object, found a string",
            "HighCommPodFilter",
            "write {name: HighCommPodFilter}",
        ),
    ),
    "nothing for a plugin entry": (
        plugins(filter={"enabled": [None]}),
        Issue(
            "profiles[0].plugins.filter.enabled[0]",
            "expected an object, found nothing",
            hint="known fields: name, weight",
        ),
    ),
    "port 0": (document(server={"port": 0}), Issue("server.port", "must be at least 1", 0)),
    "port too high": (
        document(server={"port": 65536}),
        Issue("server.port", "must be at most 65535", 65536),
    ),
    "health port too high": (
        document(server={"healthPort": 70000}),
        Issue("server.healthPort", "must be at most 65535", 70000),
    ),
    "keep-alive shorter than kube-scheduler's": (
        document(server={"keepAliveSeconds": 90}),
        Issue("server.keepAliveSeconds", "must be at least 95", 90),
    ),
    "keep-alive that no clock takes": (
        document(server={"keepAliveSeconds": 10**400}),
        Issue("server.keepAliveSeconds", "must be at most 86400", 10**400),
    ),
    "no body allowed": (
        document(server={"maxBodyBytes": 0}),
        Issue("server.maxBodyBytes", "must be at least 1", 0),
    ),
    "less in flight than one body": (
        document(server={"maxBodyBytes": 1024, "maxInFlightBytes": 1023}),
        Issue(
            "server.maxInFlightBytes",
            "must be at least maxBodyBytes, 1024",
            1023,
            "a body between the two would be refused for ever",
        ),
    ),
    **{
        f"drain delay of {delay}": (
            document(server={"drainDelay": delay}),
            Issue(
                "server.drainDelay",
                "must be 0s to 20s",
                delay,
                "Kubernetes kills a container 30s after it told it to end",
            ),
        )
        for delay in ("20.000000001s", "21s", "-1ns", "-1s")
    },
    "empty host": (
        document(server={"host": ""}),
        Issue("server.host", "must not be empty", ""),
    ),
    **{
        f"host {host}": (
            document(server={"host": host}),
            Issue("server.host", "must be an address such as 127.0.0.1 or ::1, or a name", host),
        )
        for host in ("[::1]", "http://127.0.0.1", "a..b", "127.0.0.1:8888", "*", "a" * 64)
    },
    "path with a pattern": (
        document(server={"path": "/{any}"}),
        Issue("server.path", "must be a plain path such as /v1", "/{any}"),
    ),
    "relative path": (
        document(server={"path": "v1"}),
        Issue("server.path", "must start with /", "v1"),
    ),
    "path with a query": (
        document(server={"path": "/v1?x"}),
        Issue("server.path", "must be a plain path such as /v1", "/v1?x"),
    ),
    "path that goes up": (
        document(server={"path": "/a/../b"}),
        Issue("server.path", "must be a plain path such as /v1", "/a/../b"),
    ),
    "score scale": (
        document(scoreScale="strict"),
        Issue("scoreScale", "must be 'additive' or 'strict10'", "strict"),
    ),
    "timeout without a unit": (
        document(extender={"httpTimeout": 2}),
        Issue("extender.httpTimeout", 'expected a duration such as "2s" or "1m30s", found 2', 2),
    ),
    "timeout in no unit of Go": (
        document(extender={"httpTimeout": "2sec"}),
        Issue("extender.httpTimeout", f'invalid duration "2sec": {UNITS}', "2sec"),
    ),
    "timeout with a space before its unit": (
        document(extender={"httpTimeout": "2 s"}),
        Issue("extender.httpTimeout", f'invalid duration "2 s": {UNITS}', "2 s"),
    ),
    "timeout in days": (
        document(extender={"httpTimeout": "1d"}),
        Issue("extender.httpTimeout", f'invalid duration "1d": {UNITS}', "1d"),
    ),
    "percentage": (
        document(profiles=[filter_profile("RdmaAware", percentageOfNodesToScore=101)]),
        Issue("profiles[0].percentageOfNodesToScore", "must be at most 100", 101),
    ),
}

TYPES = {
    "no kind": (
        {"apiVersion": "kubextend.dev/v1alpha1", "profiles": [filter_profile("RdmaAware")]},
        Issue("kind", "Required value", None, "kind: ExtenderConfiguration"),
    ),
    "another kind": (
        {**document(), "kind": "Policy"},
        Issue(
            "kind",
            'no kind "Policy" is known',
            "Policy",
            "kind: ExtenderConfiguration",
        ),
    ),
    "no version": (
        {"kind": "ExtenderConfiguration", "profiles": [filter_profile("RdmaAware")]},
        Issue("apiVersion", "Required value", None, "apiVersion: kubextend.dev/v1alpha1"),
    ),
    "another version": (
        {**document(), "apiVersion": "kubextend.dev/v1"},
        Issue(
            "apiVersion",
            'no version "kubextend.dev/v1" of ExtenderConfiguration is known',
            "kubextend.dev/v1",
            "apiVersion: kubextend.dev/v1alpha1",
        ),
    ),
    "kube-scheduler's own kind": (
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [filter_profile("RdmaAware")],
        },
        Issue(
            "kind",
            "this is kube-scheduler's own configuration, not kubextend's",
            "KubeSchedulerConfiguration",
            "run kubextend convert FILE > kubextend.yaml, and give kubextend that file",
        ),
    ),
}

# The sentences are kube-scheduler's: validation.go, framework.go of kubernetes v1.36.
PROFILES = {
    "no profile": (
        document(profiles=[]),
        Issue("profiles", "Required value", [], "add a profile that enables a plugin"),
    ),
    "two profiles, one without a name": (
        document(profiles=[filter_profile("RdmaAware", schedulerName="a"), {}]),
        Issue(
            "profiles[1].schedulerName",
            "Required value",
            None,
            "the spec.schedulerName of the pods that this profile is for",
        ),
    ),
    "an empty name": (
        document(profiles=[filter_profile("RdmaAware", schedulerName="")]),
        Issue(
            "profiles[0].schedulerName",
            "Required value",
            "",
            "the spec.schedulerName of the pods that this profile is for",
        ),
    ),
    "a name longer than any": (
        document(profiles=[filter_profile("RdmaAware", schedulerName="x" * 254)]),
        Issue(
            "profiles[0].schedulerName",
            "Too long",
            "x" * 254,
            "may not be more than 253 bytes long, as the names of all objects",
        ),
    ),
    "one name twice": (
        document(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]),
        Issue(
            "profiles[1].schedulerName",
            'Duplicate value: "a"',
            "a",
            "profiles[0] has this name already",
        ),
    ),
    "unknown plugin, one near": (
        plugins(filter=named("RdmaAware", "HighComPodFilter")),
        Issue(
            "profiles[0].plugins.filter.enabled[1].name",
            'FilterPlugin "HighComPodFilter" does not exist',
            "HighComPodFilter",
            f"did you mean HighCommPodFilter? {FILTERS}",
        ),
    ),
    "unknown plugin, none near": (
        plugins(permit=named("Quorum")),
        Issue(
            "profiles[0].plugins.permit.enabled[0].name",
            'PermitPlugin "Quorum" does not exist',
            "Quorum",
            f"known permit plugins: Gang, test-plugin; {OF_ONES_OWN}",
        ),
    ),
    "unknown plugin at no point in particular": (
        plugins(multiPoint=named("Quorum")),
        Issue(
            "profiles[0].plugins.multiPoint.enabled[0].name",
            'plugin "Quorum" does not exist',
            "Quorum",
            f"{PLUGINS}; {OF_ONES_OWN}",
        ),
    ),
    "a plugin misspelled where it is enabled and where it has its args": (
        document(
            profiles=[
                {
                    "plugins": {"multiPoint": named("LabelMach")},
                    "pluginConfig": [{"name": "LabelMach", "args": {}}],
                }
            ]
        ),
        Issue(
            "profiles[0].plugins.multiPoint.enabled[0].name",
            'plugin "LabelMach" does not exist',
            "LabelMach",
            f"did you mean LabelMatch? {PLUGINS}",
        ),
    ),
    "an in-tree plugin": (
        plugins(filter=named("NodeAffinity")),
        Issue(
            "profiles[0].plugins.filter.enabled[0].name",
            'FilterPlugin "NodeAffinity" does not exist',
            "NodeAffinity",
            "NodeAffinity is kube-scheduler's own and runs there; leave it out here",
        ),
    ),
    "a plugin without a name": (
        plugins(filter=enabled({"weight": 2})),
        Issue("profiles[0].plugins.filter.enabled[0].name", "Required value", ""),
    ),
    "a plugin at the wrong point": (
        plugins(score=named("HighCommPodFilter")),
        Issue(
            "profiles[0].plugins.score.enabled[0].name",
            'plugin "HighCommPodFilter" does not extend ScorePlugin plugin',
            "HighCommPodFilter",
            "HighCommPodFilter implements: filter",
        ),
    ),
    "a plugin twice at a point": (
        plugins(filter=named("RdmaAware", "RdmaAware")),
        Issue(
            "profiles[0].plugins.filter.enabled[1].name",
            'plugin "RdmaAware" already registered as "FilterPlugin"',
            "RdmaAware",
            "RdmaAware is enabled twice, first at profiles[0].plugins.filter.enabled[0].name: "
            "keep one",
        ),
    ),
    "a plugin twice at multiPoint": (
        plugins(multiPoint=named("RdmaAware", "LabelMatch", "RdmaAware")),
        Issue(
            "profiles[0].plugins.multiPoint.enabled[2].name",
            'plugin "RdmaAware" already registered as "FilterPlugin"',
            "RdmaAware",
            "RdmaAware is enabled twice, first at profiles[0].plugins.multiPoint.enabled[0].name: "
            "keep one",
        ),
    ),
    "weight 0": (
        plugins(score=enabled({"name": "LabelMatch", "weight": 0})),
        Issue("profiles[0].plugins.score.enabled[0].weight", "must be at least 1", 0, ZERO_WEIGHT),
    ),
    "weight below 0": (
        plugins(multiPoint=enabled({"name": "LabelMatch", "weight": -3})),
        Issue(
            "profiles[0].plugins.multiPoint.enabled[0].weight",
            "must be at least 1",
            -3,
            ZERO_WEIGHT,
        ),
    ),
    "weight beyond int32": (
        plugins(score=enabled({"name": "LabelMatch", "weight": 2**31})),
        Issue("profiles[0].plugins.score.enabled[0].weight", "must be at most 2147483647", 2**31),
    ),
    "an unknown plugin disabled": (
        plugins(multiPoint=named("LabelMatch"), score={"disabled": [{"name": "LabelMach"}]}),
        Issue(
            "profiles[0].plugins.score.disabled[0].name",
            'plugin "LabelMach" does not exist',
            "LabelMach",
            f"did you mean LabelMatch? {PLUGINS}",
        ),
    ),
    "two queue sort plugins": (
        document(cluster={}, profiles=[{"plugins": {"queueSort": named("SortA", "SortB")}}]),
        Issue(
            "profiles[0].plugins.queueSort.enabled",
            "only one queue sort plugin can be enabled",
            ["SortA", "SortB"],
        ),
    ),
    "queue sort not the same everywhere": (
        document(
            cluster={},
            profiles=[
                {"schedulerName": "a", "plugins": {"queueSort": named("SortA")}},
                {"schedulerName": "b", "plugins": {"queueSort": named("SortB")}},
            ],
        ),
        Issue(
            "profiles[1].plugins.queueSort",
            "must be the same for all profiles",
            ["SortB"],
            "kube-scheduler has one queue; profile a has SortA",
        ),
    ),
    "arguments twice": (
        configured("LabelMatch", [{"name": "LabelMatch"}, {"name": "LabelMatch"}]),
        Issue(
            "profiles[0].pluginConfig[1].name",
            "repeated config for plugin LabelMatch",
            "LabelMatch",
            "keep one",
        ),
    ),
    "arguments of an unknown plugin": (
        configured("LabelMatch", [{"name": "LabelMatches"}]),
        Issue(
            "profiles[0].pluginConfig[0].name",
            'plugin "LabelMatches" does not exist',
            "LabelMatches",
            f"did you mean LabelMatch? {PLUGINS}",
        ),
    ),
    "arguments of nobody": (
        configured("LabelMatch", [{"args": {}}]),
        Issue("profiles[0].pluginConfig[0].name", "Required value", ""),
    ),
    "arguments with an unknown field": (
        configured("LabelMatch", [{"name": "LabelMatch", "args": {"filter": []}}]),
        Issue(
            "profiles[0].pluginConfig[0].args.filter",
            'unknown field "filter"',
            [],
            "did you mean filters? known fields: filters, limit",
        ),
    ),
    "arguments with a wrong type far down": (
        configured(
            "LabelMatch",
            [{"name": "LabelMatch", "args": {"filters": [{"nodeSelector": "a"}, {}]}}],
        ),
        Issue("profiles[0].pluginConfig[0].args.filters[1].nodeSelector", "Required value"),
    ),
    "arguments for a plugin that takes none": (
        configured("RdmaAware", [{"name": "RdmaAware", "args": {"label": "x"}}]),
        Issue("profiles[0].pluginConfig[0].args.label", "RdmaAware takes no arguments", "x"),
    ),
    "arguments that a plugin needs, entry missing": (
        configured("Needy", [], "score"),
        Issue(
            "profiles[0].pluginConfig",
            "Needy needs args.endpoint: Required value",
            None,
            "add an entry with name: Needy",
        ),
    ),
    "arguments of kube-scheduler's form": (
        configured("LabelMatch", [{"name": "LabelMatch", "args": {"kind": "LabelMatchArgs"}}]),
        Issue(
            "profiles[0].pluginConfig[0].args.kind",
            'unknown field "kind"',
            "LabelMatchArgs",
            "known fields: filters, limit",
        ),
    ),
}

TOGETHER = {
    "names mode without the API": (
        document(extender={"nodeCacheCapable": True}),
        Issue(
            "extender.nodeCacheCapable",
            "needs cluster: kube-scheduler would send names of unknown nodes",
            True,
            "add cluster: {}, or set nodeCacheCapable: false",
        ),
    ),
    "bind without the API": (
        document(extender={"bind": True}),
        Issue(
            "cluster",
            "Required value: bind writes to the Kubernetes API",
            None,
            "add cluster: {}",
        ),
    ),
    "the guard without the API": (
        document(guard={"resources": True}),
        Issue(
            "cluster",
            "Required value: bind writes to the Kubernetes API",
            None,
            "add cluster: {}",
        ),
    ),
    "a plugin that needs bind without the API": (
        plugins(permit=named("Gang")),
        Issue(
            "cluster",
            "Required value: bind writes to the Kubernetes API",
            None,
            "add cluster: {}",
        ),
    ),
    "preempt open to other machines": (
        document(server={"host": "0.0.0.0"}),
        Issue(
            "server.host",
            "other machines can reach it, so preempt must ask for client certificates",
            "0.0.0.0",
            OPEN_HOST,
        ),
    ),
    "bind and preempt open to other machines": (
        document(server={"host": "kubextend.example"}, cluster={}, extender={"bind": True}),
        Issue(
            "server.host",
            "other machines can reach it, so preempt and bind must ask for client certificates",
            "kubextend.example",
            OPEN_HOST,
        ),
    ),
    "one port for two": (
        document(server={"port": 9000, "healthPort": 9000}),
        Issue(
            "server.healthPort",
            "must not be the port of the verbs",
            9000,
            "null serves health and metrics on server.port",
        ),
    ),
    "one port for two, of which health is on every address": (
        document(server={"port": 9000, "healthPort": 9000, "healthHost": "0.0.0.0"}),
        Issue(
            "server.healthPort",
            "must not be the port of the verbs",
            9000,
            "null serves health and metrics on server.port",
        ),
    ),
    "kubeconfig that is not there": (
        document(cluster={"kubeconfig": "/nowhere/config"}),
        Issue("cluster.kubeconfig", "cannot be read: No such file or directory", "/nowhere/config"),
    ),
    "kubeconfig in the home directory": (
        document(cluster={"kubeconfig": "~/.kube/config"}),
        Issue(
            "cluster.kubeconfig",
            "cannot be read: No such file or directory",
            "~/.kube/config",
            "~ is not expanded here",
        ),
    ),
    "kubeconfig that is a directory": (
        document(cluster={"kubeconfig": "/"}),
        Issue("cluster.kubeconfig", "cannot be read: Is a directory", "/"),
    ),
    "https without a CA": (
        document(extender={"urlPrefix": "https://kubextend:8888"}),
        Issue(
            "extender.urlPrefix",
            "https needs tlsConfig.caFile: without a CA kube-scheduler verifies nothing",
            "https://kubextend:8888",
            "set extender.tlsConfig.caFile to a path on kube-scheduler's machine",
        ),
    ),
    "no scheme": (
        document(extender={"urlPrefix": "127.0.0.1:8888"}),
        Issue(
            "extender.urlPrefix",
            "must start with http:// or https://",
            "127.0.0.1:8888",
            URL_HINT,
        ),
    ),
    "no host": (
        document(extender={"urlPrefix": "http:///v1"}),
        Issue("extender.urlPrefix", "names no server", "http:///v1", URL_HINT),
    ),
    "a port that is none": (
        document(extender={"urlPrefix": "http://a:99999"}),
        Issue("extender.urlPrefix", "Port out of range 0-65535", "http://a:99999", URL_HINT),
    ),
    "credentials": (
        document(extender={"urlPrefix": "http://me:secret@a"}),
        Issue(
            "extender.urlPrefix",
            "must hold no credentials: kube-scheduler proves itself by certificate only",
            "http://me:secret@a",
            URL_HINT,
        ),
    ),
    "a query": (
        document(extender={"urlPrefix": "http://a/?b=c"}),
        Issue(
            "extender.urlPrefix",
            "must end with a path: kube-scheduler appends /filter and so on",
            "http://a/?b=c",
            URL_HINT,
        ),
    ),
    "a verb": (
        document(extender={"urlPrefix": "http://a:8888/filter"}),
        Issue(
            "extender.urlPrefix",
            "must not end with a verb: kube-scheduler would call /filter/filter",
            "http://a:8888/filter",
            "write http://a:8888: kube-scheduler appends the verb itself",
        ),
    ),
    "a verb below a path": (
        document(extender={"urlPrefix": "http://a:8888/v1/bind/"}, server={"path": "/v1"}),
        Issue(
            "extender.urlPrefix",
            "must not end with a verb: kube-scheduler would call /v1/bind/bind",
            "http://a:8888/v1/bind/",
            "write http://a:8888/v1: kube-scheduler appends the verb itself",
        ),
    ),
    "client certificate without its key": (
        document(extender={"tlsConfig": {"certFile": "/etc/tls.crt"}}),
        Issue("extender.tlsConfig.keyFile", "must be set, because certFile is set"),
    ),
    "client key without its certificate": (
        document(extender={"tlsConfig": {"keyFile": "/etc/tls.key"}}),
        Issue("extender.tlsConfig.certFile", "must be set, because keyFile is set"),
    ),
    "no time at all": (
        document(extender={"httpTimeout": "0s"}),
        Issue("extender.httpTimeout", "must be more than 0", "0s", "kube-scheduler reads 0s as 5s"),
    ),
    "less than no time": (
        document(extender={"httpTimeout": "-1m30s"}),
        Issue(
            "extender.httpTimeout", "must be more than 0", "-1m30s", "kube-scheduler reads 0s as 5s"
        ),
    ),
    "a resource of Kubernetes itself": (
        document(extender={"managedResources": [{"name": "cpu"}]}),
        Issue(
            "extender.managedResources[0].name",
            "is an invalid extended resource name",
            "cpu",
            "such as example.com/gpu",
        ),
    ),
    "a resource whose quota would have too long a name": (
        document(extender={"managedResources": [{"name": f"{LONG_DOMAIN}/gpu"}]}),
        Issue(
            "extender.managedResources[0].name",
            "is an invalid extended resource name",
            f"{LONG_DOMAIN}/gpu",
            "such as example.com/gpu",
        ),
    ),
    "a resource twice": (
        document(extender={"managedResources": [{"name": "a.b/c"}, {"name": "a.b/c"}]}),
        Issue(
            "extender.managedResources[1].name",
            "duplicate extender managed resource name",
            "a.b/c",
        ),
    ),
    "managed resources and bind": (
        document(cluster={}, extender={"managedResources": [{"name": "a.b/c"}], "bind": True}),
        Issue("extender.managedResources", SPLIT, ["a.b/c"], "leave one of them out"),
    ),
    "managed resources and pod groups": (
        document(extender={"managedResources": [{"name": "a.b/c"}], "preemptGroups": True}),
        Issue(
            "extender.managedResources",
            "cannot be told to kube-scheduler together with preemptGroups: preempt is then an "
            "extender entry of its own, and no two entries may name the same resource",
            ["a.b/c"],
            "leave one of them out",
        ),
    ),
}


@pytest.mark.parametrize(
    ("tree", "issue"),
    [
        pytest.param(*case, id=name)
        for table in (FIELDS, TYPES, PROFILES, TOGETHER)
        for name, case in table.items()
    ],
)
def test_one_mistake_is_one_issue_with_path_sentence_value_and_hint(
    refusal: Refusal, tree: dict[str, Any], issue: Issue
) -> None:
    assert refusal(tree) == (issue,)


def test_every_mistake_of_a_file_is_reported_at_once_in_the_order_of_its_sections(
    refusal: Refusal,
) -> None:
    tree: dict[str, Any] = {
        "kind": "ExtenderConfig",
        "server": {"port": "80", "foo": 1, "host": "0.0.0.0"},
        "extender": {"nodeCacheCapable": True, "httpTimeout": "0s"},
        "profiles": [
            {
                "plugins": {
                    "filter": enabled(
                        {"nam": "x"}, "RdmaAware", {"name": "Rdma"}, {"name": "RdmaAware"}
                    ),
                    "score": enabled({"name": "LabelMatch", "weight": 0}),
                },
                "pluginConfig": [{"name": "LabelMatch", "args": {"limit": "x", "foo": 1}}],
            },
            {"schedulerName": "b", "plugins": []},
        ],
        "scoreScale": "x",
    }
    assert [issue.path for issue in refusal(tree)] == [
        "kind",
        "server.port",
        "server.foo",
        "profiles[0].plugins.filter.enabled[0].nam",
        "profiles[0].plugins.filter.enabled[1]",
        "profiles[1].plugins",
        "scoreScale",
        "apiVersion",
    ]
    del tree["server"]["port"], tree["server"]["foo"], tree["scoreScale"]
    del tree["profiles"][0]["plugins"]["filter"]["enabled"][:2], tree["profiles"][1]["plugins"]
    assert [issue.path for issue in refusal(tree)] == [
        "kind",
        "server.host",
        "extender.nodeCacheCapable",
        "extender.httpTimeout",
        "profiles[0].schedulerName",
        "profiles[0].plugins.filter.enabled[0].name",
        "profiles[0].plugins.score.enabled[0].weight",
        "profiles[0].pluginConfig[0].args.limit",
        "profiles[0].pluginConfig[0].args.foo",
        "apiVersion",
    ]


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"server": {"host": "0.0.0.0", "tls": "x"}}, "server.tls"),
        ({"server": {"host": "0.0.0.0", "tls": {"clientCAFile": 5}}}, "server.tls.clientCAFile"),
        ({"server": {"tls": {"clientCAFile": "/dev/null", "certFile": 5}}}, "server.tls.certFile"),
        ({"extender": {"urlPrefix": "https://k", "tlsConfig": 5}}, "extender.tlsConfig"),
        ({"extender": {"tlsConfig": {"certFile": 5, "keyFile": "/k"}}},
         "extender.tlsConfig.certFile"),
        ({"cluster": 5, "extender": {"nodeCacheCapable": True}}, "cluster"),
        ({"server": {"maxBodyBytes": "x", "maxInFlightBytes": 1}}, "server.maxBodyBytes"),
    ],
)  # fmt: skip
def test_what_only_follows_from_a_mistake_is_not_complained_of_too(
    refusal: Refusal, sections: dict[str, Any], path: str
) -> None:
    assert [issue.path for issue in refusal(document(**sections))] == [path]


@pytest.mark.parametrize(
    ("present", "tls", "paths"),
    [
        (["certFile"], {"certFile"}, ["server.tls.keyFile"]),
        (["keyFile"], {"keyFile"}, ["server.tls.certFile"]),
        (["clientCAFile"], {"clientCAFile"}, ["server.tls.clientCAFile"]),
        ([], {"certFile", "keyFile"}, ["server.tls.certFile", "server.tls.keyFile"]),
        (["certFile", "keyFile"], {"certFile", "keyFile", "clientCAFile"},
         ["server.tls.clientCAFile"]),
        (["certFile", "keyFile", "clientCAFile"], {"certFile", "keyFile", "clientCAFile"}, []),
    ],
)  # fmt: skip
def test_tls_files_come_in_pairs_and_can_be_read(
    tmp_path: Path, present: list[str], tls: set[str], paths: list[str]
) -> None:
    for name in present:
        (tmp_path / name).write_text("x")
    files = {name: str(tmp_path / name) for name in sorted(tls)}
    tree = document(server={"tls": files})
    found: list[str] = []
    try:
        config.parse(tree, known=KNOWN)
    except ConfigError as error:
        found = [issue.path for issue in error.issues]
    assert found == paths


def test_a_name_that_no_file_can_have_is_an_issue() -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(document(cluster={"kubeconfig": "a\0b"}), known=KNOWN)
    assert [issue.path for issue in caught.value.issues] == ["cluster.kubeconfig"]


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        config.load("/nowhere/kubextend.yaml", known=KNOWN)
    assert str(caught.value) == "/nowhere/kubextend.yaml: cannot be read: No such file or directory"


def test_json_is_yaml_enough(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document()))
    assert config.load(file, known=KNOWN).verbs == ("filter", "preempt")
