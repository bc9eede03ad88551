"""Programs that attack, load or wear out kubextend for minutes, and judge what comes of it."""

import sys
from pathlib import Path

# The doors import helpers of tests by their bare names, as pytest lets them.
sys.path.append(str(Path(__file__).parents[1]))
