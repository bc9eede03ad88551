"""A minimal server of Starlette and uvicorn: reads the body and sends a part of it back.

python benches/peers/noop.py PORT ANSWER_BYTES
"""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def main(port: int, answer_bytes: int) -> None:
    padding = bytes(answer_bytes)

    async def answer(request: Request) -> Response:
        body = await request.body()
        # Where names come without nodes, the answer with its reasons is larger than the request.
        sent = body[:answer_bytes] if len(body) >= answer_bytes else padding
        return Response(sent, media_type="application/json")

    async def ready(_request: Request) -> Response:
        return Response()

    routes = [Route("/filter", answer, methods=["POST"]), Route("/readyz", ready)]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
