"""The HTTP server: reads requests within limits, calls a verb for each request, sends answers.

uvicorn listens and shuts down, the package ``connection`` reads requests within limits, and
Starlette routes requests to verbs. The server knows nothing of scheduling: the verbs (filter,
prioritize, preempt and bind) interpret the bodies.
"""

from kubextend.server.access import Access, TokenFile
from kubextend.server.api_threads import ApiThreads
from kubextend.server.application import Application, Limits, application, health_application
from kubextend.server.connection.deadlines import Deadlines
from kubextend.server.connection.tls import ClientTlsFiles, TlsFiles
from kubextend.server.decisions_endpoint import decision_routes
from kubextend.server.decisions_page import page_routes
from kubextend.server.freed_memory import keep_freed_memory
from kubextend.server.health import Health, HealthCheck
from kubextend.server.http_service import Ending, Listener, Service
from kubextend.server.memory_limit import memory_limit_bytes
from kubextend.server.waiting_pods_endpoint import waiting_pod_routes

__all__ = [
    "Access",
    "ApiThreads",
    "Application",
    "ClientTlsFiles",
    "Deadlines",
    "Ending",
    "Health",
    "HealthCheck",
    "Limits",
    "Listener",
    "Service",
    "TlsFiles",
    "TokenFile",
    "application",
    "decision_routes",
    "health_application",
    "keep_freed_memory",
    "memory_limit_bytes",
    "page_routes",
    "waiting_pod_routes",
]
