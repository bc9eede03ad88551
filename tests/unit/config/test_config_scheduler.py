"""What is written for kube-scheduler says what the configuration needs, in its own fields."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_world import KNOWN, Parse, document, filter_profile

from kubextend import config
from kubextend.config.scheduler import legacy_policy, scheduler_configuration
from kubextend.errors import ConfigError, Issue

FILTER = {
    "urlPrefix": "http://127.0.0.1:8888",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "httpTimeout": "2s",
    "nodeCacheCapable": False,
    "ignorable": False,
}
BIND = {
    "urlPrefix": "http://127.0.0.1:8888",
    "bindVerb": "bind",
    "httpTimeout": "2m0s",
    "nodeCacheCapable": True,
    "ignorable": False,
}
# With preemptGroups requests of preempt bring whole pods, and an answer that fails is ignored.
PREEMPT = {
    "urlPrefix": "http://127.0.0.1:8888",
    "preemptVerb": "preempt",
    "httpTimeout": "7s",
    "nodeCacheCapable": False,
    "ignorable": True,
}
FILTER_ALONE = {key: value for key, value in FILTER.items() if key != "preemptVerb"}
SCORE = {"prioritizeVerb": "prioritize", "weight": 1}
NAMES = {"nodeCacheCapable": True}


def point(name: str, plugin: str) -> list[dict[str, Any]]:
    return [{"plugins": {name: {"enabled": [{"name": plugin}]}}}]


@pytest.mark.parametrize(
    ("sections", "entries"),
    [
        pytest.param({}, [FILTER], id="filter alone"),
        pytest.param({"cluster": {}}, [FILTER | NAMES], id="names mode"),
        pytest.param(
            {"profiles": point("multiPoint", "LabelMatch")}, [FILTER | SCORE], id="filter and score"
        ),
        pytest.param(
            {"profiles": point("score", "LabelMatch")},
            [
                {
                    "urlPrefix": "http://127.0.0.1:8888",
                    **SCORE,
                    "httpTimeout": "2s",
                    "nodeCacheCapable": False,
                    "ignorable": False,
                }
            ],
            id="score alone",
        ),
        pytest.param(
            {"cluster": {}, "extender": {"bind": True, "httpTimeout": "800ms"}},
            [FILTER | NAMES | {"httpTimeout": "800ms"}, BIND],
            id="bind asked for",
        ),
        pytest.param(
            {"cluster": {}, "extender": {"ignorable": True}, "profiles": point("permit", "Gang")},
            [
                # A pod that Permit sent back hears of it from filter; there is nothing to preempt.
                {key: value for key, value in FILTER.items() if key != "preemptVerb"}
                | NAMES
                | {"ignorable": True},
                BIND,
            ],
            id="bind needed, never ignorable",
        ),
        pytest.param(
            {
                "extender": {
                    "ignorable": True,
                    "managedResources": [
                        {"name": "a.b/c", "ignoredByScheduler": True},
                        {"name": "a.b/d"},
                    ],
                }
            },
            [
                FILTER
                | {
                    "ignorable": True,
                    "managedResources": [
                        {"name": "a.b/c", "ignoredByScheduler": True},
                        {"name": "a.b/d"},
                    ],
                }
            ],
            id="ignorable and managed resources",
        ),
        pytest.param(
            {
                "extender": {
                    "urlPrefix": "https://kubextend:8888/",
                    "tlsConfig": {
                        "caFile": "/ca",
                        "certFile": "/crt",
                        "keyFile": "/key",
                        "serverName": "k",
                    },
                }
            },
            [
                FILTER
                | {
                    "urlPrefix": "https://kubextend:8888",
                    "enableHTTPS": True,
                    "tlsConfig": {
                        "caFile": "/ca",
                        "certFile": "/crt",
                        "keyFile": "/key",
                        "serverName": "k",
                    },
                }
            ],
            id="https",
        ),
        pytest.param(
            {"extender": {"preemptGroups": True}}, [FILTER_ALONE, PREEMPT], id="pod groups"
        ),
        pytest.param(
            {
                "cluster": {},
                "profiles": point("multiPoint", "LabelMatch"),
                "extender": {"preemptGroups": True, "bind": True, "httpTimeout": "800ms"},
            },
            [
                FILTER_ALONE | SCORE | NAMES | {"httpTimeout": "800ms"},
                PREEMPT | {"httpTimeout": "5.8s"},
                BIND,
            ],
            id="pod groups, every verb",
        ),
        pytest.param(
            {"extender": {"preemptGroups": True, "ignorable": True}},
            [FILTER_ALONE | {"ignorable": True}, PREEMPT],
            id="pod groups, ignorable",
        ),
        pytest.param(
            {
                "cluster": {},
                "profiles": point("score", "LabelMatch"),
                "extender": {"preemptGroups": True},
            },
            [
                {
                    "urlPrefix": "http://127.0.0.1:8888",
                    **SCORE,
                    "httpTimeout": "2s",
                    **NAMES,
                    "ignorable": False,
                }
            ],
            id="pod groups without a filter",
        ),
        pytest.param({"cluster": {}, "profiles": point("queueSort", "SortA")}, [], id="no verb"),
    ],
)
def test_an_extender_entry_names_the_verbs_that_are_needed(
    parse: Parse, sections: dict[str, Any], entries: list[dict[str, Any]]
) -> None:
    loaded = parse(document(**sections))
    written = yaml.safe_load(scheduler_configuration(loaded))
    assert written["extenders"] == entries
    filters = any("preemptVerb" in entry for entry in entries)
    assert written.get("percentageOfNodesToScore") == (100 if filters else None)


@pytest.mark.parametrize(
    ("names", "options", "fields"),
    [
        (["default-scheduler"], {}, {}),
        (
            ["default-scheduler"],
            {"kubeconfig": "/etc/kubernetes/scheduler.conf", "leader_elect": True},
            {
                "clientConnection": {
                    "kubeconfig": "/etc/kubernetes/scheduler.conf",
                    "qps": 200,
                    "burst": 400,
                },
                "leaderElection": {"leaderElect": True},
            },
        ),
        (["ml"], {"leader_elect": False}, {"leaderElection": {"leaderElect": False}}),
        (
            ["ml", "batch"],
            {},
            {"leaderElection": {"leaderElect": True, "resourceName": "kubextend-scheduler"}},
        ),
        (["ml", "default-scheduler"], {}, {}),
    ],
)
def test_profiles_connection_and_election_are_those_asked_for(
    parse: Parse, names: list[str], options: dict[str, Any], fields: dict[str, Any]
) -> None:
    profiles = [filter_profile("RdmaAware", schedulerName=name) for name in names]
    loaded = parse(document(profiles=profiles))
    written = yaml.safe_load(scheduler_configuration(loaded, **options))
    del written["extenders"]
    assert written == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in names],
        "clientConnection": {"qps": 200, "burst": 400},
        **fields,
    }


def test_the_file_says_that_a_second_kube_scheduler_needs_other_names_than_the_default(
    parse: Parse,
) -> None:
    text = scheduler_configuration(parse(document()))
    assert "# profile of a second kube-scheduler another schedulerName.\n" in text
    assert "Lease" not in scheduler_configuration(parse(document()), leader_elect=False)


@pytest.mark.parametrize(
    ("plugins", "calls"),
    [
        ({"score": ["LabelMatch"]}, None),
        ({"filter": ["RdmaAware"]}, {"qps": 200, "burst": 400}),
        ({"permit": ["Gang"]}, {"qps": 200, "burst": 400}),
        ({"queueSort": ["SortA"], "score": ["LabelMatch"]}, {"qps": 200, "burst": 400}),
    ],
)
def test_a_kube_scheduler_that_may_have_many_unschedulable_pods_gets_more_calls(
    plugins: dict[str, list[str]], calls: dict[str, int] | None, parse: Parse
) -> None:
    enabled = {
        point: {"enabled": [{"name": name} for name in names]} for point, names in plugins.items()
    }
    loaded = parse(document(profiles=[{"plugins": enabled}], cluster={}))
    assert yaml.safe_load(scheduler_configuration(loaded)).get("clientConnection") == calls


def test_the_percentage_of_a_profile_is_handed_on(parse: Parse) -> None:
    profile = filter_profile("RdmaAware", percentageOfNodesToScore=30)
    written = yaml.safe_load(scheduler_configuration(parse(document(profiles=[profile]))))
    assert written["profiles"] == [
        {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 30}
    ]


def test_what_is_written_tells_why_within_a_hundred_columns(parse: Parse) -> None:
    text = scheduler_configuration(parse(document(profiles=point("multiPoint", "LabelMatch"))))
    comments = " ".join(line for line in text.splitlines() if line.startswith("#"))
    for word in ("Every node is looked at", "preemptVerb", "weight: 1", "kubernetes#141781"):
        assert word in comments
    assert max(map(len, text.splitlines())) <= 100


def test_an_old_kube_scheduler_gets_a_policy_that_counts_nanoseconds(parse: Parse) -> None:
    loaded = parse(
        document(
            cluster={},
            profiles=point("multiPoint", "LabelMatch"),
            extender={
                "bind": True,
                "urlPrefix": "https://127.0.0.1:8888",
                "tlsConfig": {"caFile": "/ca"},
                "httpTimeout": "1.5s",
            },
        )
    )
    shared = {
        "urlPrefix": "https://127.0.0.1:8888",
        "enableHttps": True,
        "tlsConfig": {"caFile": "/ca"},
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    assert json.loads(legacy_policy(loaded)) == {
        "kind": "Policy",
        "apiVersion": "v1",
        "extenders": [
            {
                **shared,
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "httpTimeout": 1_500_000_000,
            },
            {**shared, "bindVerb": "bind", "httpTimeout": 120_000_000_000},
        ],
    }


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    files = {name: str(tmp_path / name) for name in ("certFile", "keyFile", "clientCAFile")}
    for file in files.values():
        Path(file).write_text("x")
    return files


@pytest.mark.parametrize("write", [scheduler_configuration, legacy_policy])
def test_a_server_on_every_address_has_none_to_write_down(parse: Parse, write: Any) -> None:
    loaded = parse(document(server={"host": "0.0.0.0", "insecure": True}))
    with pytest.raises(ConfigError) as caught:
        write(loaded)
    assert caught.value.issues == (
        Issue(
            "extender.urlPrefix",
            "Required value: 0.0.0.0 is no address that kube-scheduler could call",
            None,
            "set extender.urlPrefix, or give scheduler-config --url-prefix",
        ),
    )


def test_https_is_never_written_without_a_ca_nor_mutual_tls_without_a_certificate(
    parse: Parse, tls: dict[str, str]
) -> None:
    loaded = parse(document(server={"tls": tls}))
    assert loaded.url_prefix == "https://127.0.0.1:8888"
    with pytest.raises(ConfigError) as caught:
        scheduler_configuration(loaded)
    assert [(issue.path, issue.message) for issue in caught.value.issues] == [
        (
            "extender.tlsConfig.caFile",
            "Required value: without a CA kube-scheduler verifies nothing",
        ),
        (
            "extender.tlsConfig.certFile",
            "Required value: the server asks for a client certificate",
        ),
        (
            "extender.tlsConfig.keyFile",
            "Required value: the server asks for a client certificate",
        ),
    ]


def test_what_scheduler_config_will_refuse_of_tls_is_noted_before(
    parse: Parse, tls: dict[str, str]
) -> None:
    def missing(server: dict[str, str], **extender: str) -> list[str]:
        loaded = parse(document(server={"tls": server}, extender={"tlsConfig": extender}))
        return [note.partition(":")[0] for note in loaded.notes]

    own = {name: tls[name] for name in ("certFile", "keyFile")}
    at = "extender.tlsConfig."
    pair = {"certFile": "/crt", "keyFile": "/key"}
    assert missing(own) == [f"{at}caFile"]
    assert missing(own, caFile="/ca") == []
    assert missing(tls, caFile="/ca") == [f"{at}certFile", f"{at}keyFile"]
    assert missing(tls) == [f"{at}caFile", f"{at}certFile", f"{at}keyFile"]
    assert missing(tls, caFile="/ca", **pair) == []
    assert missing({}) == []


def test_the_default_is_written_for_whole_nodes() -> None:
    written = yaml.safe_load(scheduler_configuration(config.load(None, known=KNOWN)))
    assert written["extenders"] == [FILTER]
