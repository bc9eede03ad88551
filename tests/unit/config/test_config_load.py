"""What a right configuration comes to."""

from pathlib import Path
from typing import Any

import pytest
from config_world import KNOWN, LabelMatchArgs, Parse, document, filter_profile

from kubextend import config
from kubextend.errors import ConfigError

LABEL = "a" * 63
LONGEST_DOMAIN = ".".join([LABEL, LABEL, LABEL, "a" * (253 - len("requests.") - 3 * 64)])


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_without_a_file_the_high_comm_filter_serves_the_default_scheduler_whole_nodes() -> None:
    loaded = config.load(None, known=KNOWN)
    (profile,) = loaded.resolved
    assert profile.scheduler_name == "default-scheduler"
    assert profile.points == {"filter": (config.EnabledPlugin("HighCommPodFilter"),)}
    assert profile.args == {"HighCommPodFilter": None}
    assert (loaded.server.host, loaded.server.port, loaded.server.path) == ("127.0.0.1", 8888, "/")
    assert loaded.cluster is None
    assert not loaded.extender.node_cache_capable
    assert loaded.notes == ()


def test_every_field_of_the_file_is_read(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "any"
    file.write_text("x")
    pem = str(file)
    loaded = parse(
        document(
            server={
                "host": "10.0.0.1",
                "port": 9443,
                "path": "/v1",
                "healthPort": 9444,
                "maxBodyBytes": 1024,
                "maxInFlightBytes": 2048,
                "drainDelay": "5s",
                "keepAliveSeconds": 100,
                "insecure": False,
                "tls": {"certFile": pem, "keyFile": pem, "clientCAFile": pem},
                "waitingPods": {"allowedNames": ["ops"], "tokenFile": pem},
            },
            cluster={"kubeconfig": pem, "context": "dev"},
            extender={
                "urlPrefix": "https://kubextend:9443/v1",
                "nodeCacheCapable": True,
                "httpTimeout": "9.5s",
                "ignorable": False,
                "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
                "tlsConfig": {
                    "caFile": "/there/ca",
                    "certFile": "/there/crt",
                    "keyFile": "/there/key",
                    "serverName": "kubextend",
                },
                "bind": False,
            },
            scoreScale="strict10",
        )
    )
    server, extender = loaded.server, loaded.extender
    assert (server.host, server.port, server.path, server.health_port) == (
        "10.0.0.1",
        9443,
        "/v1",
        9444,
    )
    assert (server.max_body_bytes, server.keep_alive_seconds) == (1024, 100)
    assert (server.max_in_flight_bytes, server.drain_delay.seconds) == (2048, 5)
    assert server.tls == config.ServerTLS(certFile=pem, keyFile=pem, clientCAFile=pem)
    assert server.waiting_pods == config.WaitingPods(allowedNames=("ops",), tokenFile=pem)
    assert loaded.cluster == config.Cluster(kubeconfig=pem, context="dev")
    assert extender.http_timeout.seconds == 9.5
    assert extender.managed_resources[0].ignored_by_scheduler
    assert extender.tls_config.server_name == "kubextend"
    assert loaded.score_scale == "strict10"
    assert loaded.url_prefix == "https://kubextend:9443/v1"
    # No plugin of this file holds pods.
    assert [note.partition(":")[0] for note in loaded.notes] == ["server.waitingPods"]


@pytest.mark.parametrize(
    ("sections", "capable"),
    [
        ({}, False),
        ({"cluster": {}}, True),
        ({"cluster": {}, "extender": {"httpTimeout": "3s"}}, True),
        ({"cluster": {}, "extender": {"nodeCacheCapable": False}}, False),
        ({"cluster": None}, False),
    ],
)
def test_names_suffice_as_soon_as_there_is_a_cluster(
    parse: Parse, sections: dict[str, Any], capable: bool
) -> None:
    assert parse(document(**sections)).extender.node_cache_capable is capable


def test_null_is_as_good_as_absent(parse: Parse) -> None:
    empty: dict[str, Any] = {
        "server": None,
        "extender": {"urlPrefix": None, "tlsConfig": {"caFile": None}, "managedResources": None},
        "scoreScale": None,
    }
    assert parse(document(**empty)) == parse(document())


def test_a_null_within_arguments_is_the_plugins_affair(parse: Parse) -> None:
    profile = filter_profile(
        "LabelMatch", pluginConfig=[{"name": "LabelMatch", "args": {"filters": [], "limit": 3}}]
    )
    (resolved,) = parse(document(profiles=[profile])).resolved
    assert resolved.args == {"LabelMatch": LabelMatchArgs(filters=(), limit=3)}
    profile["pluginConfig"][0]["args"]["limit"] = None
    with pytest.raises(ConfigError, match=r"args\.limit: .*whole number, found nothing"):
        parse(document(profiles=[profile]))


@pytest.mark.parametrize(
    ("profile", "extender", "verbs"),
    [
        ({"filter": named("RdmaAware")}, {}, ("filter", "preempt")),
        ({"score": named("LabelMatch")}, {}, ("prioritize",)),
        ({"multiPoint": named("LabelMatch")}, {}, ("filter", "preempt", "prioritize")),
        ({"preFilter": named("Gang")}, {}, ("filter", "preempt")),
        ({"postFilter": named("test-plugin")}, {}, ("filter",)),
        ({"permit": named("Gang")}, {}, ("filter", "bind")),
        ({"postBind": named("test-plugin")}, {}, ("bind",)),
        ({"queueSort": named("SortA")}, {}, ()),
        ({"preScore": named("score-plugin-1")}, {}, ()),
        ({}, {"bind": True}, ("bind",)),
        ({"filter": named("RdmaAware")}, {"bind": True}, ("filter", "preempt", "bind")),
    ],
)
def test_kube_scheduler_calls_the_verbs_that_a_plugin_needs_and_no_other(
    parse: Parse, profile: dict[str, Any], extender: dict[str, Any], verbs: tuple[str, ...]
) -> None:
    plugins = {point: {"enabled": entries} for point, entries in profile.items()}
    tree = document(cluster={}, extender=extender, profiles=[{"plugins": plugins}])
    assert parse(tree).verbs == verbs


@pytest.mark.parametrize(
    ("server", "prefix"),
    [
        ({}, "http://127.0.0.1:8888"),
        ({"path": "/v1/", "port": 80}, "http://127.0.0.1:80/v1"),
        ({"host": "::1"}, "http://[::1]:8888"),
        ({"host": "localhost"}, "http://localhost:8888"),
    ],
)
def test_the_url_prefix_follows_from_the_server(
    parse: Parse, server: dict[str, Any], prefix: str
) -> None:
    assert parse(document(server=server)).url_prefix == prefix


def test_a_path_that_is_named_like_a_verb_may_be_that_of_the_server(parse: Parse) -> None:
    extender = {"urlPrefix": "http://a:8888/filter"}
    loaded = parse(document(server={"path": "/filter"}, extender=extender))
    assert loaded.url_prefix == "http://a:8888/filter"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_server_on_loopback_needs_no_certificates(parse: Parse, host: str) -> None:
    assert parse(document(server={"host": host})).server.host == host


@pytest.mark.parametrize(
    "sections",
    [
        {"server": {"host": "0.0.0.0", "insecure": True}},
        {
            "server": {"host": "0.0.0.0"},
            "profiles": [{"plugins": {"score": {"enabled": named("LabelMatch")}}}],
        },
    ],
)
def test_a_server_open_to_others_is_fine_if_asked_for_or_harmless(
    parse: Parse, sections: dict[str, Any]
) -> None:
    assert parse(document(**sections)).server.host == "0.0.0.0"


def test_overrides_count_before_the_file() -> None:
    overrides = {"server.host": "localhost", "server.port": 1234, "extender.bind": False}
    loaded = config.load(None, known=KNOWN, overrides=overrides)
    assert (loaded.server.host, loaded.server.port) == ("localhost", 1234)


def test_a_kubeconfig_from_outside_switches_the_cluster_on(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    overrides = {"cluster.kubeconfig": str(kubeconfig)}
    loaded = config.parse(document(cluster=None), known=KNOWN, overrides=overrides)
    assert loaded.cluster == config.Cluster(kubeconfig=str(kubeconfig))
    assert loaded.extender.node_cache_capable


@pytest.mark.parametrize(
    ("sections", "notes"),
    [
        (
            {"cluster": None},
            ["cluster: empty, so there is no access to the API; {} switches it on"],
        ),
        (
            {"extender": {"httpTimeout": "30s"}},
            ["extender.httpTimeout: one hanging call holds up all scheduling for that long"],
        ),
        (
            {"extender": {"ignorable": True}},
            [
                (
                    "extender.ignorable: while kubextend does not answer, pods are placed as if it "
                    "had no plugins"
                )
            ],
        ),
        (
            {"extender": {"urlPrefix": "http://proxy/kubextend"}},
            [
                "extender.urlPrefix: its path is not server.path, /: right only behind a proxy",
            ],
        ),
        (
            {"extender": {"urlPrefix": "http://127.0.0.1:9999"}},
            ["extender.urlPrefix: its port is not server.port, 8888: right only behind a proxy"],
        ),
        (
            {"extender": {"urlPrefix": "http://localhost"}, "server": {"port": 8080}},
            ["extender.urlPrefix: its port is not server.port, 8080: right only behind a proxy"],
        ),
        (
            {"extender": {"urlPrefix": "https://proxy", "tlsConfig": {"caFile": "/ca"}}},
            ["extender.urlPrefix: kubextend itself serves http: right only behind a proxy"],
        ),
        (
            {"profiles": [filter_profile("RdmaAware", percentageOfNodesToScore=0)]},
            [
                (
                    "profiles[0].percentageOfNodesToScore: kube-scheduler stops at a sample, "
                    "which may hold no node that fits"
                )
            ],
        ),
        (
            {"profiles": [filter_profile("RdmaAware", pluginConfig=named("LabelMatch"))]},
            [
                (
                    "profiles[0].pluginConfig[0].name: LabelMatch is not enabled in this profile: "
                    "not used"
                )
            ],
        ),
        (
            {
                "profiles": [
                    {
                        "plugins": {
                            "score": {
                                "enabled": named("LabelMatch"),
                                "disabled": named("ImageLocality"),
                            }
                        }
                    }
                ]
            },
            [
                (
                    "profiles[0].plugins.score.disabled[0].name: ImageLocality is kube-scheduler's "
                    "own: disabling it here has no effect"
                )
            ],
        ),
    ],
)
def test_what_has_no_effect_or_a_sharp_edge_is_noted(
    parse: Parse, sections: dict[str, Any], notes: list[str]
) -> None:
    assert parse(document(**sections)).notes == tuple(notes)


@pytest.mark.parametrize(
    "sections",
    [
        {"server": {"drainDelay": "0s"}},
        {"server": {"drainDelay": "20s"}},
        {"server": {"maxBodyBytes": 1024, "maxInFlightBytes": 1024}},
        {"extender": {"permitMaxWait": "1ns"}},
        {"extender": {"permitMaxWait": "15m"}},
        {"extender": {"maxHeldPods": 1, "maxHeldPodsPerNamespace": 1}},
        {"extender": {"httpTimeout": "1ns"}},
        {"extender": {"httpTimeout": "10s"}},
        # As long as a quota of it, requests.<name>, may be.
        {"extender": {"managedResources": [{"name": f"{LONGEST_DOMAIN}/gpu"}]}},
        {"profiles": [filter_profile("RdmaAware", percentageOfNodesToScore=100)]},
    ],
)
def test_what_is_just_within_a_limit_is_right_and_needs_no_note(
    parse: Parse, sections: dict[str, Any]
) -> None:
    assert parse(document(**sections)).notes == ()


@pytest.mark.parametrize(
    ("point", "watched"),
    [("reserve", True), ("permit", True), ("filter", False), ("preBind", False)],
)
def test_pods_are_watched_where_a_plugin_holds_something_for_them(
    parse: Parse, point: str, watched: bool
) -> None:
    enabled = {point: {"enabled": [{"name": "test-plugin"}]}}
    loaded = parse(document(cluster={}, profiles=[{"plugins": enabled}]))
    assert loaded.needs_pods is watched


@pytest.mark.parametrize("guards", [True, False])
def test_the_guard_watches_pods_and_binds_them_all(parse: Parse, guards: bool) -> None:
    plugins = {"score": {"enabled": [{"name": "test-plugin"}]}}
    sections = {"cluster": {}, "guard": {"resources": guards}, "profiles": [{"plugins": plugins}]}
    loaded = parse(document(**sections))
    assert loaded.needs_pods is guards
    assert ("bind" in loaded.verbs) is guards
