"""Many connections at once, from a process of their own, so that they do not slow down the client that measures."""

import asyncio
import contextlib
import multiprocessing
import resource
import socket
import time

# Addresses of loopback: to the service each is a source of its own.
SOURCES = [f"127.0.0.{last}" for last in range(1, 255)]
CONNECT_SECONDS_MAX = 30


def raise_files() -> None:
    """As many open files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def connect(
    port: int, source: str = "127.0.0.1", receive_bytes: int = 0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from this address of loopback, whose kernel takes so many bytes at once; 0 leaves that to it."""
    connection = socket.socket()
    connection.setblocking(False)
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        connection.bind((source, 0))
        connecting = asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        await asyncio.wait_for(connecting, CONNECT_SECONDS_MAX)
    except BaseException:
        connection.close()
        raise
    return await asyncio.open_connection(sock=connection, limit=4096)


async def _all(member, number: int, arguments: tuple) -> None:
    async def forever(index: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                await member(index, *arguments)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(forever(index) for index in range(number)))


def _main(member, number: int, arguments: tuple) -> None:
    raise_files()
    asyncio.run(_all(member, number, arguments))


@contextlib.contextmanager
def crowd(member, number: int, *arguments: object, settle: float = 2.0):
    """Runs `member(index, *arguments)` this many times at once, each again as soon as it ends."""
    process = multiprocessing.Process(target=_main, args=(member, number, arguments), daemon=True)
    process.start()
    try:
        time.sleep(settle)
        yield process
    finally:
        process.terminate()
        process.join()


class Endpoint:
    """A merchant's endpoint, in a process of its own, that answers 204 late; it counts its requests."""

    def __init__(self, seconds: float) -> None:
        self.port, self.requests, self.at_once = (multiprocessing.Value("i", 0) for _ in range(3))
        self._process = multiprocessing.Process(target=self._main, args=(seconds,), daemon=True)

    def __enter__(self) -> "Endpoint":
        self._process.start()
        while not self.port.value:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port.value}/"

    def _main(self, seconds: float) -> None:
        present = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal present
            try:
                await reader.readuntil(b"\r\n\r\n")
                present += 1
                self.requests.value += 1
                self.at_once.value = max(self.at_once.value, present)
                await asyncio.sleep(seconds)
                present -= 1
                writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                await writer.drain()
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        async def run() -> None:
            raise_files()
            server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
            self.port.value = server.sockets[0].getsockname()[1]
            await server.serve_forever()

        asyncio.run(run())


def has_setting(service, name: str) -> bool:
    """Whether this binary has a setting: an older one is measured without it."""
    return f'"{name}"' in service.run("config", "show", "--json")
