"""kube-scheduler's own configuration file: written, compared with, and converted from.

``write`` makes a file with which kube-scheduler calls kubextend, ``compare`` finds where a given
file differs from it, and ``convert`` makes kubextend's configuration from a given file.
"""
