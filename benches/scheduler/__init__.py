"""The real kube-scheduler with one extender after the other: pods a second.

PYTHONPATH=benches:. python -m scheduler
"""
