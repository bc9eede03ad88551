"""Lists the trials, or runs one: ``python -m tests.trials [NAME [OPTION...]]``.

A trial prints what it finds, a line that begins with WRONG for each thing that must not be, and its
figures as JSON in the last line. Exit code: 0 where nothing is wrong.
"""

import sys
from collections.abc import Sequence

from tests.e2e.workbench import say

from . import (  # noqa: F401  each adds its trials
    api_faults,
    flooded_nodes,
    gangs,
    hostile,
    hostile_memory,
    hostile_tenant,
    interrupted,
    large,
    lasting,
    leader_changes,
    measured,
    pod_groups,
    reliability,
    rollouts,
    rules,
    slow,
)
from .harness import TRIALS


def main(line: Sequence[str]) -> int:
    if not line:
        for name, trial in TRIALS.items():
            say(f"{name:24}{trial.sentence}")
        return 0
    if line[0] not in TRIALS:
        say(f"{line[0]} is none of the trials: {', '.join(TRIALS)}")
        return 2
    return TRIALS[line[0]].report(*line[1:]).end(line[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
