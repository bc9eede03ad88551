from verb_world import Needs, Watched, counted, full_request, node, verbs_of

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


def test_stores_are_read_when_scraped() -> None:
    metrics = Metrics()
    watched = Watched()
    metrics.scrape(NODE_STORE, watched.store.stats, store="watched")

    def nodes() -> float | None:
        return metrics.registry.get_sample_value("kubextend_node_store_nodes", {"store": "watched"})

    assert nodes() == 0
    watched.listing(node("a"), node("b"))
    assert nodes() == 2
