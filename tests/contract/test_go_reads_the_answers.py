"""kube-scheduler's own types read every answer: a Go test talks to a kubextend that runs here.

The Go side is tests/go/contract; it also plays the API that kubextend lists nodes from.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.doors.kube_api import configuration, write_kubeconfig
from tests.e2e.workbench import Workbench

GO_FOLDER = Path(__file__).resolve().parents[1] / "go"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
# The first time, Go compiles kube-scheduler's types.
GO_TIMEOUT_S = 1200.0
RULE = {"podSelector": "team=ml", "nodeSelector": "zone in (a,b,),!nothing", "reason": "wrong zone"}
LABEL_MATCH = {
    "filters": [RULE],
    "scores": [
        {"nodeSelector": "disk=ssd", "score": 30},
        {"nodeSelector": "cores>8", "score": 45},
        {"nodeSelector": "zone notin (c)", "score": 25},
    ],
}
PROFILES = (
    {
        "schedulerName": "default-scheduler",
        "plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}},
    },
    {
        "schedulerName": "label-match",
        "plugins": {
            "filter": {"enabled": [{"name": "LabelMatch"}]},
            "score": {"enabled": [{"name": "LabelMatch", "weight": 3}]},
        },
        "pluginConfig": [{"name": "LabelMatch", "args": LABEL_MATCH}],
    },
)


def test_kube_schedulers_own_types_read_every_answer(tmp_path: Path) -> None:
    go = shutil.which("go")
    assert go is not None, "the contract tests need a Go toolchain on the PATH"
    kubeconfig, config = tmp_path / "kubeconfig", tmp_path / "kubextend.yaml"
    with Workbench(tmp_path) as bench:
        port, api = bench.free_port(), f"127.0.0.1:{bench.free_port()}"
        write_kubeconfig(kubeconfig, f"http://{api}", "token")
        server = {"host": "127.0.0.1", "port": port}
        more = {"extender": {"bind": True}, "passThrough": ["no-one", "someone-else"]}
        tree = configuration(kubeconfig, *PROFILES, server=server, **more)
        config.write_text(json.dumps(tree))
        program = bench.start("kubextend", KUBEXTEND, "serve", "--config", config)
        url = {"KUBEXTEND_URL": f"http://127.0.0.1:{port}", "KUBERNETES_API": api, "NO_PROXY": "*"}
        # Go waits until kubextend is ready, for which kubextend needs the API that Go serves.
        done = subprocess.run(
            [go, "test", "-count=1", "-shuffle=on", "./contract/..."],
            cwd=GO_FOLDER,
            env={**os.environ, **url},
            capture_output=True,
            text=True,
            timeout=GO_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr}\n{program.tail()}"
