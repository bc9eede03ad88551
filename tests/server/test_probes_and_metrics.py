"""The probes and the metrics, as the kubelet and Prometheus ask for them."""

import ctypes
import gc
import re
import resource
from pathlib import Path

import pytest
from tests.doors.clocks import until
from tests.doors.extender import Extender, in_memory, pod, request, skip
from tests.doors.sockets import Line, posted

MIB = 1 << 20


@pytest.fixture(scope="module")
def extender() -> Extender:
    return Extender()


def test_an_extender_that_waits_for_nothing_is_alive_and_ready(extender: Extender) -> None:
    for path in ("/livez", "/readyz"):
        answer = extender.ask(path)
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.headers["content-type"].startswith("text/plain")
    assert extender.ask("/readyz?verbose").text == (
        "[+]ping ok\n[+]plugins ok\n[+]plugins-started ok\n[+]shutdown ok\nreadyz check passed\n"
    )


def test_an_extender_is_unready_and_alive_from_the_moment_of_shutting_down() -> None:
    extender = Extender()
    extender.shut_down()
    answer = extender.ask("/readyz")
    assert answer.status == 503
    assert "[-]shutdown failed: kubextend is shutting down\n" in answer.text
    assert answer.text.endswith("readyz check failed\n")
    assert extender.ask("/livez").status == 200


@pytest.mark.parametrize(
    ("query", "lines"),
    [("verbose", 3), ("verbose=1", 3), ("a&verbose", 3), ("a=verbosely", 1), ("a&" * 9000, 1)],
)
def test_a_probe_is_verbose_where_its_query_says_so(
    extender: Extender, query: str, lines: int
) -> None:
    answer = extender.ask(f"/livez?{query}")
    assert (answer.status, len(answer.text.splitlines())) == (200, lines)


def test_the_metrics_tell_of_requests_plugins_and_the_process() -> None:
    extender = Extender()
    extender.ask("/filter", request("filter"))
    extender.ask("/filter", request("filter", pod(then="raise")))
    extender.ask("/nowhere", b"{}")
    answer = extender.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'kubextend_verb_requests_total{result="ok",verb="filter"} 1.0',
        'kubextend_requests_refused_total{status="404"} 1.0',
        'kubextend_plugin_failures_total{extension_point="Filter",plugin="NeedsRdma"} 1.0',
        'kubextend_healthcheck{name="plugins-started",type="readyz"} 1.0',
        f'kubextend_configuration_info{{sha256="{extender.config.sha256}"}} 1.0',
        "kubextend_requests_in_flight_bytes 0.0",
        "process_resident_memory_bytes",
        "kubextend_build_info",
    ):
        assert f"\n{line}" in answer.text


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("kubextend_verb_duration_seconds", [0.001 * 2.0**power for power in range(-5, 15)]),
        ("kubextend_request_body_bytes", [1024.0 * 4.0**power for power in range(11)]),
        ("kubextend_verb_nodes", [1, 10, 50, 100, 250, 500, 1e3, 2500, 5e3, 1e4, 1.5e4, 5e4, 1e5]),
    ],
)
def test_histograms_have_the_buckets_that_dashboards_know(name: str, bounds: list[float]) -> None:
    extender = Extender()
    extender.ask("/filter", request("filter"))
    text = extender.ask("/metrics").text
    found = re.findall(rf'{name}_bucket\{{le="([^"]+)",verb="filter"\}} (\S+)', text)
    assert [float(bound) for bound, _ in found] == [*bounds, float("inf")]
    counts = [float(count) for _, count in found]
    assert counts == sorted(counts)
    assert counts[-1] == extender.counted(f"{name}_count", verb="filter") == 1
    assert extender.counted(f"{name}_sum", verb="filter") > 0


@in_memory
async def test_metrics_are_never_older_than_their_request() -> None:
    extender = Extender()
    for number in range(1, 4):
        await extender.begin("/nowhere", b"{}").answer()
        scrapes = [extender.begin("/metrics") for _ in range(5)]
        for scrape in scrapes:
            assert f'refused_total{{status="404"}} {number}.0' in (await scrape.answer()).text


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@in_memory
async def test_memory_of_a_large_body_is_kept_for_the_next_and_goes_back_when_none_comes() -> None:
    extender, body = Extender(), request("filter").ljust(100 * MIB)
    # The body must not get what earlier tests have freed.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    async with extender.running():
        line = Line(extender)
        await line.send(posted("/filter", body))
        await line.answered(b"HTTP/1.1 200 ")
        await skip(15)
        kept = resident_bytes() - before
        await skip(15)
        # A thread gives the memory back.
        await until(lambda: 2 * (resident_bytes() - before) < 80 * MIB)
        assert kept > 80 * MIB
