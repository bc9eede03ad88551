"""The HTTP server: reads requests within limits, calls a verb for each request, sends answers.

uvicorn listens, parses and shuts down, ``connection`` adds limits on clients, and Starlette routes
requests to verbs. The server knows nothing of scheduling: the verbs (filter, prioritize, preempt
and bind) interpret the bodies.
"""
