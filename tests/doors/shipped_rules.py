"""Reads the alerts and the dashboard of deploy/monitoring."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
_NAME = re.compile(r"\b(?:kubextend|process|up)_?[a-z_]*\b")
_IN_QUOTES = re.compile(r'"[^"]*"')


def rule_file() -> dict[str, Any]:
    """Return the content of a rule file for Prometheus: the spec of the PrometheusRule."""
    rule: dict[str, Any] = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())
    spec: dict[str, Any] = rule["spec"]
    return spec


def alerts() -> dict[str, dict[str, Any]]:
    """Return each alert by its name."""
    return {rule["alert"]: rule for group in rule_file()["groups"] for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return loaded


def dashboard_expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def metric_names(expression: str) -> set[str]:
    """Return the names of the metrics in a PromQL expression."""
    return set(_NAME.findall(_IN_QUOTES.sub("", expression)))
