"""What a plugin author reads: no HTTP, no Kubernetes client."""
