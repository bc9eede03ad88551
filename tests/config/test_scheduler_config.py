"""What ``scheduler-config`` writes for kube-scheduler: what the configuration needs, and why."""

import json
from pathlib import Path
from typing import Any

import yaml
from tests.doors import configured_plugins
from tests.doors.command_line import (
    ROOT,
    Golden,
    Result,
    cases,
    configuration,
    other_lines,
    run,
    transcript,
    write,
)


def written(folder: Path, options: Any = (), **sections: Any) -> Result:
    tree = configuration(**{"outOfTree": configured_plugins.ALL} | sections)
    return run("scheduler-config", "--config", write(folder / "c.yaml", tree), *options)


def in_short(result: Result) -> str:
    """Return what was written, with a line for each extender, and without its comments."""
    lines = [result.stderr.removesuffix("\n")] if result.stderr else []
    for key, value in (yaml.safe_load(result.stdout) or {}).items():
        if key == "extenders":
            lines += [f"- {json.dumps(each)}" for each in value] or ["no extender"]
        elif key != "kind":
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def test_scheduler_config_writes_what_the_configuration_and_the_options_ask_for(
    golden: Golden, tmp_path: Path
) -> None:
    told = {
        name: in_short(written(tmp_path, **case))
        for name, case in cases("config/scheduler_config.yaml").items()
    }
    usual = told.pop("filter")
    others = {name: other_lines(usual, text) for name, text in told.items()}
    golden("config/scheduler_config.txt", transcript({"filter": usual, **others}))


def test_scheduler_config_says_why_within_a_hundred_columns(golden: Golden, tmp_path: Path) -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Match"}]}}}
    text = written(tmp_path, profiles=[profile]).stdout
    golden("config/kube-scheduler.yaml", text)
    assert max(map(len, text.splitlines())) <= 100


def test_scheduler_config_writes_for_the_newest_kube_scheduler_of_the_e2e_tests() -> None:
    written = run("scheduler-config", "--kube-version=v1.37.1").stdout
    assert written.startswith("# kube-scheduler 1.37: ")
    newest = max(folder.name for folder in (ROOT / "tests/e2e/tools").glob("1.*"))
    major, minor = newest.split(".")
    assert run("scheduler-config", f"--kube-version={newest}").stderr == ""
    # The next one is known from its beta, and no test runs it.
    untested = run("scheduler-config", f"--kube-version={major}.{int(minor) + 1}")
    assert untested.exit_code == 0
    assert f"note: kubextend is tested with kube-scheduler up to {newest}; " in untested.stderr
    assert run("scheduler-config", f"--kube-version={major}.{int(minor) + 2}").exit_code == 2


def test_scheduler_config_writes_a_version_that_each_kube_scheduler_reads() -> None:
    # Source: KEP-785, Implementation History
    read = {"v1beta3": range(23, 29), "v1": range(25, 38)}
    for minor in range(23, 38):
        text = run("scheduler-config", f"--kube-version=1.{minor}").stdout
        version = yaml.safe_load(text)["apiVersion"].removeprefix("kubescheduler.config.k8s.io/")
        assert minor in read[version]
