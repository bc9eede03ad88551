"""Lists the trials, or runs one: ``python -m tests.trials [NAME [OPTION...]]``.

A trial prints what it finds, a line that begins with WRONG for each thing that must not be, and its
figures as JSON in the last line. Exit code: 0 where nothing is wrong.
"""

import sys
from collections.abc import Sequence

from tests.e2e.workbench import say

from . import (  # noqa: F401  each adds its trials
    faulty_binds,
    flooded_nodes,
    gangs,
    hostile_memory,
    hostile_tenant,
    lasting,
    leader_changes,
    measured,
    pod_groups,
    reliability,
    rules,
)
from .harness import TRIALS


def main(line: Sequence[str]) -> int:
    if not line:
        for name, trial in TRIALS.items():
            say(f"{name:24}{trial.sentence}")
        return 0
    name, *rest = line
    if name not in TRIALS:
        say(f"{name} is none of the trials: {', '.join(TRIALS)}")
        return 2
    return TRIALS[name].main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
