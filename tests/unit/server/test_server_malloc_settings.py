"""Run in a process of its own: what it sets lasts as long as the process."""

import platform
import subprocess
import sys


def test_glibc_can_be_told_and_others_are_left_alone() -> None:
    code = "from kubextend.server import keep_freed_memory; print(keep_freed_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(platform.libc_ver()[0] == "glibc")
