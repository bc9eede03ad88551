"""End-to-end tests: etcd, kube-apiserver and kube-scheduler as they are, with kubextend behind."""
