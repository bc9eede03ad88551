"""Static rules of plugins as admission policies, which kube-apiserver applies by itself."""
