"""Each alert fires for the series of its fault, and no alert fires in an hour of normal load."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import write
from tests.doors.shipped_rules import alerts, rule_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool"),
]

HOUR = 60
BUCKETS = ("0.001", "0.016", "0.256", "1.024", "4.096", "+Inf")
# How fast each of the buckets counts at a hundred calls a minute of 10 ms, and of 3 s.
QUICK = (0, 100, 100, 100, 100, 100)
SLOW = (0, 0, 0, 0, 100, 100)
DAY_S = 86_400
Series = dict[str, str]


def one(name: str, values: str, labels: str = "", instance: str = "a") -> Series:
    """Return a series of kubextend's metric of this name, or ``up``."""
    whole = name if name == "up" else f"kubextend_{name}"
    job = f'job="kubextend", namespace="k", instance="{instance}"'
    return {f"{whole}{{{job}{', ' if labels else ''}{labels}}}": f"{values}x{HOUR}"}


def histogram(name: str, counts: tuple[int, ...], labels: str = "") -> Series:
    found: Series = {}
    for bound, count in zip(BUCKETS, counts, strict=True):
        found |= one(f"{name}_bucket", f"0+{count}", f'{labels}le="{bound}"')
    return found


ERROR = 'verb="filter", result="error"'
BIND = 'verb="bind", profile="p", result='
READY = 'type="readyz", name="node-sync"'
AT_FILTER = 'plugin="P", extension_point="Filter"'
NODES = 'resource="nodes"'
NORMAL: Series = {
    **one("up", "1"),
    **one("healthcheck", "1", READY),
    **one("plugin_stuck_threads", "0", 'plugin="P"'),
    **one("plugin_breaker_open", "0", 'plugin="P"'),
    # One failure in ten minutes.
    **one("plugin_failures_total", "0+0.1", AT_FILTER),
    **one("verb_requests_total", "0+1000", 'verb="filter", result="ok"'),
    # Four of a hundred.
    **one("verb_requests_total", "0+40", ERROR),
    # Permit rejects gangs all the time.
    **one("verb_requests_total", "0+100", 'verb="bind", result="error"'),
    **one("verb_requests_total", "0", 'verb="filter", result="unknown_scheduler"'),
    **one("attempts_total", "0+100", f'{BIND}"bound"'),
    **one("attempts_total", "0+90", f'{BIND}"rejected"'),
    **one("attempts_total", "0+10", f'{BIND}"error"'),
    **one("requests_refused_total", "0+100", 'status="501"'),
    **one("requests_refused_total", "0+0.1", 'status="503"'),
    **one("leader", "1"),
    **one("leader", "0", instance="b"),
    **one("queue_leader", "1"),
    **one("reflector_synced", "1", NODES),
    **one("reflector_age_seconds", "60", NODES),
    # Each second query fails.
    **one("prometheus_refreshes_total", "0+1", 'source="P", result="failed"'),
    **one("prometheus_refreshes_total", "0+1", 'source="P", result="ok"'),
    **histogram("verb_duration_seconds", QUICK, 'verb="filter",'),
    **histogram("verb_duration_seconds", SLOW, 'verb="bind",'),
    **one("threads_waiting_calls", "0", 'pool="verb"'),
    # promtool begins at 1970-01-01.
    **one("certificate_not_after_seconds", f"{9 * DAY_S}"),
    **one("certificate_not_after_seconds", "0", instance="b"),
    **one("tls_handshakes_failed_total", "0+0.5"),
    **one("requests_refused_total", "0+0.5", 'status="401"'),
    **one("configuration_info", "1", 'sha256="one"'),
    **one("configuration_info", "1", 'sha256="one"', instance="b"),
}

# The series that differ from NORMAL, and the minute at which the alert has to fire.
FAULTS: dict[str, tuple[Series, int]] = {
    "Down": (one("up", "0"), 3),
    "NotReady": (one("healthcheck", "0", READY), 6),
    "PluginHangs": (one("plugin_stuck_threads", "0 1", 'plugin="P"'), 2),
    "BreakerOpen": (one("plugin_breaker_open", "0 1", 'plugin="P"'), 3),
    "PluginFails": (one("plugin_failures_total", "0+1", AT_FILTER), 10),
    "AnswersErrors": (one("verb_requests_total", "0+60", ERROR), 7),
    "BindsFail": (one("attempts_total", "0+60", f'{BIND}"error"'), 13),
    "UnknownScheduler": (
        one("verb_requests_total", "0 0 1", 'verb="filter", result="unknown_scheduler"'),
        3,
    ),
    "RefusesRequests": (one("requests_refused_total", "0+1", 'status="503"'), 10),
    "NoLeader": (one("leader", "0"), 2),
    "QueueNoLeader": (one("queue_leader", "0"), 2),
    "ClusterDataOld": (one("reflector_age_seconds", "60+60", NODES), 6),
    "MetricSourceFails": (one("prometheus_refreshes_total", "5", 'source="P", result="ok"'), 10),
    "Slow": (histogram("verb_duration_seconds", SLOW, 'verb="filter",'), 13),
    "ThreadsUsedUp": (one("threads_waiting_calls", "1", 'pool="verb"'), 3),
    "CertificateEnds": (one("certificate_not_after_seconds", f"{6 * DAY_S}"), 1),
    "HandshakesFail": (one("tls_handshakes_failed_total", "0+2"), 10),
    "LoginsRefused": (one("requests_refused_total", "0+2", 'status="401"'), 10),
    "ConfigurationsDiffer": (one("configuration_info", "1", 'sha256="another"'), 16),
}


def firing(name: str, minute: int, value: int) -> dict[str, Any]:
    samples = [{"labels": "{}", "value": value}] if value else []
    return {
        "expr": f'count(count by (alertname) (ALERTS{{alertname=~"{name}", alertstate="firing"}}))',
        "eval_time": f"{minute}m",
        "exp_samples": samples,
    }


def run(tests: list[dict[str, Any]], folder: Path) -> None:
    write(folder / "rules.yaml", yaml.safe_dump(rule_file()))
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    command = ["promtool", "test", "rules", write(folder / "tests.yaml", yaml.safe_dump(content))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def given(series: Series, expected: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": listed, "promql_expr_test": expected}


def test_each_alert_has_a_fault_here() -> None:
    assert {f"Kubextend{name}" for name in FAULTS} == alerts().keys()


def test_no_alert_fires_in_an_hour_of_normal_load(tmp_path: Path) -> None:
    minutes = [firing(".*", minute, 0) for minute in range(0, HOUR, 5)]
    run([given(NORMAL, minutes)], tmp_path)


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_and_no_other_fires_for_its_fault(name: str, tmp_path: Path) -> None:
    series, minute = FAULTS[name]
    expected = [firing(f"Kubextend{name}", minute, 1), firing(".*", minute, 1)]
    run([given(NORMAL | series, expected)], tmp_path)


def test_kubextend_is_down_where_prometheus_knows_no_target(tmp_path: Path) -> None:
    run([given({}, [firing("KubextendDown", 3, 1)])], tmp_path)
