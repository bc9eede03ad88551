"""Metrics of the verbs that dashboards and alerts read."""

from tests.doors.wire import Wire, needs, node, pod


def test_the_buckets_of_kube_schedulers_own_histograms_are_among_ours() -> None:
    wire = Wire(needs(), nodes=["n"])
    wire.filter(pod())
    text = wire.get("/metrics").body.decode()
    # ExponentialBuckets(0.001, 2, 15), kubernetes v1.36 pkg/scheduler/metrics/metrics.go.
    for power in range(15):
        bucket = f'kubextend_verb_duration_seconds_bucket{{le="{0.001 * 2**power}",verb="filter"}}'
        assert bucket in text


def test_whole_nodes_that_were_seen_before_are_recognised_and_counted() -> None:
    wire = Wire(needs(), nodes=["n"])
    for _ in range(3):
        wire.filter(pod(), whole=[node("a"), node("b")])
    counts = {
        name: wire.metric(f"kubextend_node_store_{name}", store="request")
        for name in ("nodes", "hits_total", "misses_total")
    }
    assert counts == {"nodes": 2, "hits_total": 4, "misses_total": 2}


def test_an_unknown_scheduler_is_counted_from_0_on() -> None:
    wire = Wire(needs())
    labels = {"verb": "filter", "result": "unknown_scheduler"}
    text = wire.get("/metrics").body.decode()
    assert 'kubextend_verb_requests_total{result="unknown_scheduler",verb="filter"} 0.0' in text
    wire.filter(pod(scheduler_name="typo"), whole=[node()])
    assert wire.metric("kubextend_verb_requests_total", **labels) == 1
