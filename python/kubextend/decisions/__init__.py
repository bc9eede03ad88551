"""Tells people what kubextend decided about a pod, and why; changes nothing.

``decision_reader`` makes JSON of the records that the verbs keep. ``nearest_nodes`` says what a
pod lacks. ``explanation`` joins a record with what the Kubernetes API says of the pod;
``captured_facts`` checks both in a file of a user.
"""

from kubextend.decisions.decision_reader import DecisionReader, ServerFacts, waiting_json

__all__ = ["DecisionReader", "ServerFacts", "waiting_json"]
