"""Builds Helm and kustomize, and renders the chart and the folders of deploy/ with them."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from .controlplane import BINARIES, build
from .kubeapi import Object
from .manifests import CHART, DEPLOY
from .versions import MODULES

RELEASE = "kubextend"
NAMESPACE = "kubextend-system"
TOOLS = {"helm": "helm.sh/helm/v4/cmd/helm", "kustomize": "sigs.k8s.io/kustomize/kustomize/v5"}
TIMEOUT_S = 600.0
Key = tuple[str, str, str]


def build_deploy_tools() -> Path:
    """Build Helm and kustomize unless they are built, and return their folder."""
    build(MODULES / "deploy", TOOLS, BINARIES)
    return BINARIES


def by_name(objects: Sequence[Object]) -> dict[Key, Object]:
    """Return objects by kind, namespace and name; no two may have the same."""
    found: dict[Key, Object] = {}
    for thing in objects:
        metadata = thing["metadata"]
        key = (thing["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"{key} comes twice"
        found[key] = thing
    return found


class Helm:
    """Runs Helm, with its settings in a folder of its own and the chart of deploy/helm."""

    def __init__(self, tools: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program = tools / "helm"
        self._folder = folder
        homes = {f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **homes, "KUBECONFIG": str(kubeconfig or os.devnull)}

    def template(
        self, values: Object, *, namespace: str = NAMESPACE, chart: Path = CHART
    ) -> dict[Key, Object]:
        """Return the objects of a release with these values."""
        written = self.run("template", RELEASE, chart, *self._with(values, namespace))
        return by_name([document for document in yaml.safe_load_all(written) if document])

    def refused(self, values: Object) -> str:
        """Return what Helm says of values that it must refuse."""
        done = self._done("template", RELEASE, CHART, *self._with(values, NAMESPACE))
        assert done.returncode != 0, done.stdout
        return done.stderr

    def install(self, values: Object) -> None:
        self.run("install", RELEASE, CHART, *self._with(values, NAMESPACE))

    def upgrade(self, values: Object) -> None:
        """Upgrade the release to these values, and to no value of before."""
        options = ["--reset-values", *self._with(values, NAMESPACE)]
        self.run("upgrade", RELEASE, CHART, *options)

    def run(self, *arguments: str | Path) -> str:
        """Run Helm and return what it printed."""
        done = self._done(*arguments)
        assert done.returncode == 0, f"helm {arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def _with(self, values: Object, namespace: str) -> list[str | Path]:
        path = self._folder / "values.json"
        path.write_text(json.dumps(values))
        return [f"--namespace={namespace}", "--values", path]

    def _done(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self._program, *arguments]
        how: Object = {"capture_output": True, "text": True, "timeout": TIMEOUT_S}
        return subprocess.run(command, check=False, env=self._environment, **how)


class Kustomize:
    """Runs kustomize on a copy of deploy/, in which a test changes files as README.md says."""

    def __init__(self, tools: Path, folder: Path) -> None:
        self._program = tools / "kustomize"
        self.deploy = folder / "deploy"
        shutil.copytree(DEPLOY, self.deploy, ignore=shutil.ignore_patterns(CHART.name))

    def change(self, file: str, before: str, after: str) -> None:
        """Replace a text that a file of the copy has once."""
        path = self.deploy / file
        text = path.read_text()
        assert text.count(before) == 1, f"{file}: {before!r}"
        path.write_text(text.replace(before, after))

    def take_in(self, folder: str, *lines: str) -> None:
        """Remove the # before lines of a folder's kustomization.yaml."""
        for line in lines:
            self.change(f"{folder}/kustomization.yaml", f"\n# {line}\n", f"\n{line}\n")

    def move(self, namespace: str) -> None:
        """Write another namespace wherever a file names that of kubextend."""
        for path in self.deploy.rglob("*.yaml"):
            path.write_text(path.read_text().replace(NAMESPACE, namespace))

    def build(self, *folders: str) -> dict[Key, Object]:
        """Return the objects of folders, without the Namespaces, which folders share."""
        built: list[Object] = []
        for folder in folders:
            command: list[str | Path] = [self._program, "build", self.deploy / folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            built += yaml.safe_load_all(done.stdout)
        return by_name([thing for thing in built if thing["kind"] != "Namespace"])
