"""Programs that attack, load or wear out kubextend for minutes, and judge what comes of it."""
