"""Properties, which Hypothesis tries with many examples."""
