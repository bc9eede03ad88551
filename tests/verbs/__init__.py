"""Tests of the verbs, as kube-scheduler calls them."""
