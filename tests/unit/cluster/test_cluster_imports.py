from __future__ import annotations

import subprocess
import sys


def test_kubernetes_is_loaded_by_connect_alone() -> None:
    code = (
        "import sys, kubextend.cluster\n"
        "print([name for name in ('kubernetes', 'urllib3', 'yaml') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout.strip() == b"[]"
