"""Each alert fires for the series of its fault, and no alert fires in an hour of normal load."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.shipped_rules import alerts, rule_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool"),
]

JOB = 'job="kubextend", namespace="k", instance="a"'
HOUR = 60
BUCKETS = ("0.001", "0.016", "0.256", "1.024", "4.096", "+Inf")
# How fast each of the buckets counts at a hundred calls a minute of 10 ms, and of 3 s.
QUICK = (0, 100, 100, 100, 100, 100)
SLOW = (0, 0, 0, 0, 100, 100)

Series = dict[str, str]


def histogram(name: str, labels: str, counts: tuple[int, ...]) -> Series:
    return {
        f'{name}_bucket{{{JOB}, {labels} le="{bound}"}}': f"0+{count}x{HOUR}"
        for bound, count in zip(BUCKETS, counts, strict=True)
    }


def one(name: str, values: str, labels: str = "") -> Series:
    return {f"{name}{{{JOB}{', ' if labels else ''}{labels}}}": values}


REQUESTS = "kubextend_verb_requests_total"
ATTEMPTS = "kubextend_attempts_total"
DAY_S = 86_400
NORMAL: Series = {
    **one("up", f"1x{HOUR}"),
    **one("kubextend_healthcheck", f"1x{HOUR}", 'type="readyz", name="node-sync"'),
    **one("kubextend_plugin_stuck_threads", f"0x{HOUR}", 'plugin="P"'),
    **one("kubextend_plugin_breaker_open", f"0x{HOUR}", 'plugin="P"'),
    # One failure in ten minutes.
    **one(
        "kubextend_plugin_failures_total", f"0+0.1x{HOUR}", 'plugin="P", extension_point="Filter"'
    ),
    **one(REQUESTS, f"0+1000x{HOUR}", 'verb="filter", result="ok"'),
    # Four of a hundred.
    **one(REQUESTS, f"0+40x{HOUR}", 'verb="filter", result="error"'),
    # Permit rejects gangs all the time.
    **one(REQUESTS, f"0+100x{HOUR}", 'verb="bind", result="error"'),
    **one(REQUESTS, f"0x{HOUR}", 'verb="filter", result="unknown_scheduler"'),
    **one(ATTEMPTS, f"0+100x{HOUR}", 'verb="bind", profile="p", result="bound"'),
    **one(ATTEMPTS, f"0+90x{HOUR}", 'verb="bind", profile="p", result="rejected"'),
    **one(ATTEMPTS, f"0+10x{HOUR}", 'verb="bind", profile="p", result="error"'),
    **one("kubextend_requests_refused_total", f"0+100x{HOUR}", 'status="501"'),
    **one("kubextend_requests_refused_total", f"0+0.1x{HOUR}", 'status="503"'),
    **one("kubextend_leader", f"1x{HOUR}"),
    'kubextend_leader{job="kubextend", namespace="k", instance="b"}': f"0x{HOUR}",
    **one("kubextend_queue_leader", f"1x{HOUR}"),
    **one("kubextend_reflector_synced", f"1x{HOUR}", 'resource="nodes"'),
    **one("kubextend_reflector_age_seconds", f"60x{HOUR}", 'resource="nodes"'),
    # Each second query fails.
    **one("kubextend_prometheus_refreshes_total", f"0+1x{HOUR}", 'source="P", result="failed"'),
    **one("kubextend_prometheus_refreshes_total", f"0+1x{HOUR}", 'source="P", result="ok"'),
    **histogram("kubextend_verb_duration_seconds", 'verb="filter",', QUICK),
    **histogram("kubextend_verb_duration_seconds", 'verb="bind",', SLOW),
    **one("kubextend_threads_waiting_calls", f"0x{HOUR}", 'pool="verb"'),
    **one("kubextend_connections", f"2000x{HOUR}", 'listener="verbs"'),
    **one("kubextend_connections_limit", f"4096x{HOUR}", 'listener="verbs"'),
    **one("kubextend_requests_in_flight_bytes", f"500x{HOUR}"),
    **one("kubextend_requests_in_flight_limit_bytes", f"1000x{HOUR}"),
    **histogram("kubextend_event_loop_lag_seconds", "", QUICK),
    # promtool begins at 1970-01-01.
    **one("kubextend_certificate_not_after_seconds", f"{9 * DAY_S}x{HOUR}"),
    'kubextend_certificate_not_after_seconds{job="kubextend", namespace="k", instance="b"}': (
        f"0x{HOUR}"
    ),
    **one("kubextend_certificate_reloads_total", f"0+1x{HOUR}", 'result="ok"'),
    **one("kubextend_certificate_reloads_total", f"0x{HOUR}", 'result="error"'),
    **one("kubextend_tls_handshakes_failed_total", f"0+0.5x{HOUR}"),
    **one("kubextend_logins_refused_total", f"0+0.5x{HOUR}", 'status="401"'),
    **one("kubextend_configuration_info", f"1x{HOUR}", 'sha256="one"'),
    'kubextend_configuration_info{job="kubextend", namespace="k", instance="b", sha256="one"}': (
        f"1x{HOUR}"
    ),
}

# The series that differ from NORMAL, and the minute at which the alert has to fire.
FAULTS: dict[str, tuple[Series, int]] = {
    "KubextendDown": (one("up", "0x60"), 3),
    "KubextendNotReady": (
        one("kubextend_healthcheck", "0x60", 'type="readyz", name="node-sync"'),
        6,
    ),
    "KubextendPluginHangs": (one("kubextend_plugin_stuck_threads", "0 1x60", 'plugin="P"'), 2),
    "KubextendBreakerOpen": (one("kubextend_plugin_breaker_open", "0 1x60", 'plugin="P"'), 3),
    "KubextendPluginFails": (
        one("kubextend_plugin_failures_total", "0+1x60", 'plugin="P", extension_point="Filter"'),
        10,
    ),
    "KubextendAnswersErrors": (one(REQUESTS, "0+60x60", 'verb="filter", result="error"'), 7),
    "KubextendBindsFail": (
        one(ATTEMPTS, "0+60x60", 'verb="bind", profile="p", result="error"'),
        13,
    ),
    "KubextendUnknownScheduler": (
        one(REQUESTS, "0 0 1x60", 'verb="filter", result="unknown_scheduler"'),
        3,
    ),
    "KubextendRefusesRequests": (
        one("kubextend_requests_refused_total", "0+1x60", 'status="503"'),
        10,
    ),
    "KubextendNoLeader": (one("kubextend_leader", "0x60"), 2),
    "KubextendQueueNoLeader": (one("kubextend_queue_leader", "0x60"), 2),
    "KubextendClusterDataOld": (
        one("kubextend_reflector_age_seconds", "60+60x60", 'resource="nodes"'),
        6,
    ),
    "KubextendMetricSourceFails": (
        one("kubextend_prometheus_refreshes_total", "5x60", 'source="P", result="ok"'),
        10,
    ),
    "KubextendSlow": (histogram("kubextend_verb_duration_seconds", 'verb="filter",', SLOW), 13),
    "KubextendThreadsUsedUp": (one("kubextend_threads_waiting_calls", "1x60", 'pool="verb"'), 3),
    "KubextendConnectionsUsedUp": (one("kubextend_connections", "4000x60", 'listener="verbs"'), 6),
    "KubextendBytesUsedUp": (one("kubextend_requests_in_flight_bytes", "900x60"), 6),
    "KubextendEventLoopLate": (histogram("kubextend_event_loop_lag_seconds", "", SLOW), 7),
    "KubextendCertificateEnds": (
        one("kubextend_certificate_not_after_seconds", f"{6 * DAY_S}x60"),
        1,
    ),
    "KubextendCertificateNotLoaded": (
        one("kubextend_certificate_reloads_total", "0 0 1x60", 'result="error"'),
        3,
    ),
    "KubextendHandshakesFail": (one("kubextend_tls_handshakes_failed_total", "0+2x60"), 10),
    "KubextendLoginsRefused": (one("kubextend_logins_refused_total", "0+2x60", 'status="401"'), 10),
    "KubextendConfigurationsDiffer": (
        one("kubextend_configuration_info", "1x60", 'sha256="another"'),
        16,
    ),
}


def firing(name: str, minute: int, value: int) -> dict[str, Any]:
    samples = [{"labels": "{}", "value": value}] if value else []
    return {
        "expr": f'count(count by (alertname) (ALERTS{{alertname=~"{name}", alertstate="firing"}}))',
        "eval_time": f"{minute}m",
        "exp_samples": samples,
    }


def run(tests: list[dict[str, Any]], folder: Path) -> None:
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule_file()))
    file = folder / "tests.yaml"
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    file.write_text(yaml.safe_dump(content))
    command = ["promtool", "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def given(series: Series, expected: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": listed, "promql_expr_test": expected}


def test_each_alert_has_a_fault_here() -> None:
    assert FAULTS.keys() == alerts().keys()


def test_no_alert_fires_in_an_hour_of_normal_load(tmp_path: Path) -> None:
    minutes = [firing(".*", minute, 0) for minute in range(0, HOUR, 5)]
    run([given(NORMAL, minutes)], tmp_path)


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_and_no_other_fires_for_its_fault(name: str, tmp_path: Path) -> None:
    series, minute = FAULTS[name]
    expected = [firing(name, minute, 1), firing(".*", minute, 1)]
    run([given(NORMAL | series, expected)], tmp_path)


def test_kubextend_is_down_where_prometheus_knows_no_target(tmp_path: Path) -> None:
    run([given({}, [firing("KubextendDown", 3, 1)])], tmp_path)
