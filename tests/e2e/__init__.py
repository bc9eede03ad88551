"""End-to-end tests: kubextend with unmodified etcd, kube-apiserver and kube-scheduler."""
