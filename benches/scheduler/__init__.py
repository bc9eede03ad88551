"""Measures the pods a second of the real kube-scheduler with several extenders.

PYTHONPATH=benches:. python -m scheduler
"""
