"""Executes a command that the kernel kills when the parent process ends.

A fixture's clean-up does not run when the interpreter is killed, but the kernel's parent-death
signal is sent. Linux only: on other systems the command just runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process: ``with_parent.py PARENT_PID COMMAND [ARGUMENT...]``."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the parent is gone already")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
