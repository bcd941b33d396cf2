"""A TCP relay with latency, and losses as TCP shows them.

``relay.py PORT TO_PORT LATENCY_MS LOSS SEED [FILE]``. A lost segment is sent again after 200 ms, and all
that follow wait for it. What is sent in both directions is added to FILE.
"""

import asyncio
import os
import random
import sys
from contextlib import suppress

RESEND_SECONDS = 0.2
SEGMENT = 1460

_CHANCE = random.Random(0)  # seeded again by an argument
_RECORD = os.open(sys.argv[6] if len(sys.argv) > 6 else os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


async def pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float, loss: float
) -> None:
    """Copy one direction: read at once, write when a segment has arrived."""
    arriving: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)
    clock = asyncio.get_running_loop().time

    async def deliver() -> None:
        while True:
            due, data = await arriving.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    due = 0.0
    with suppress(OSError):
        while data := await reader.read(SEGMENT):
            os.write(_RECORD, data)
            lost = RESEND_SECONDS if _CHANCE.random() < loss else 0.0
            due = max(due, clock() + latency + lost)
            await arriving.put((due, data))
    await arriving.put((max(due, clock() + latency), b""))
    with suppress(OSError):
        await delivering


async def main(port: int, to_port: int, latency: float, loss: float) -> None:
    """Serve for ever."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, far_writer, latency, loss), pump(far_reader, writer, latency, loss))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    _CHANCE.seed(int(sys.argv[5]))
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1e3, float(sys.argv[4])))
