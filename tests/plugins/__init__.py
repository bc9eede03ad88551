"""Stories of plugins, as their authors and kube-scheduler see them."""
