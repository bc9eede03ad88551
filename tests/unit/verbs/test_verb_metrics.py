from verb_world import Needs, Watched, counted, full_request, node, verbs_of

from kubextend.cluster import NODE_SNAPSHOT
from kubextend.metrics import Metrics
from kubextend.server.verb_endpoint import DURATION
from kubextend.verbs.kept_between_calls import NODE_STORE


def test_the_buckets_of_kube_schedulers_own_histograms_are_among_ours() -> None:
    metrics = Metrics()
    metrics.histogram(DURATION, "filter").observe(0.5)
    text = metrics.render()[0].decode()
    # ExponentialBuckets(0.001, 2, 15), kubernetes v1.36 pkg/scheduler/metrics/metrics.go.
    for power in range(15):
        bucket = f'kubextend_verb_duration_seconds_bucket{{le="{0.001 * 2**power}",verb="filter"}}'
        assert bucket in text


def test_two_instances_share_nothing() -> None:
    one, other = verbs_of([Needs()]), verbs_of([Needs()])
    one.filter(full_request([node("n")]))
    labels = {"verb": "filter", "result": "ok"}
    assert counted(one, "kubextend_verb_requests_total", **labels) == 1
    assert counted(other, "kubextend_verb_requests_total", **labels) == 0


def test_stores_and_the_snapshot_are_read_when_scraped() -> None:
    metrics = Metrics()
    watched = Watched(synced=False)
    metrics.scrape(NODE_STORE, watched.store.stats, store="watched")
    metrics.scrape(NODE_SNAPSHOT, lambda: watched)  # type: ignore[arg-type,misc]

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("kubextend_node_store_nodes", store="watched") == 0
    assert value("kubextend_node_snapshot_synced") == 0
    watched.listing(node("a"), node("b"))
    watched.synced = True
    assert value("kubextend_node_store_nodes", store="watched") == 2
    assert value("kubextend_node_snapshot_synced") == 1
    assert value("kubextend_node_snapshot_age_seconds") == 0


def test_a_snapshot_that_never_heard_of_the_api_has_no_age() -> None:
    class Silent:
        synced = False

        def age_s(self) -> float | None:
            return None

    metrics = Metrics()
    metrics.scrape(NODE_SNAPSHOT, Silent)  # type: ignore[arg-type]
    assert metrics.registry.get_sample_value("kubextend_node_snapshot_age_seconds") is None
