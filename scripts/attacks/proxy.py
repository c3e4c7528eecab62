"""A TCP proxy that misbehaves: it swallows connections, hangs, or refuses them."""

import contextlib
import socket
import threading

BYTES = 65_536


class Proxy:
    """Before a server on loopback, on a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self.server = (host, port)
        self.generation = 0
        self.hangs = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def swallow(self) -> None:
        """From now on nothing passes on the connections that are open, and nobody is told. New ones work."""
        self.generation += 1

    def hang(self) -> None:
        """Swallows everything, and accepts new connections without ever answering."""
        self.hangs = True
        self.swallow()

    def refuse(self) -> None:
        """Closes everything and refuses new connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in self._pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def recover(self) -> None:
        """Works again: after `hang` at once, after `refuse` on the same port."""
        self.hangs = False
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if self.hangs:
                self._held.append(client)
                continue
            try:
                server = socket.create_connection(self.server)
            except OSError:
                client.close()
                continue
            self._pairs.append((client, server))
            for source, target in ((client, server), (server, client)):
                arguments = (source, target, self.generation)
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, generation: int) -> None:
        while True:
            try:
                data = source.recv(BYTES)
            except OSError:
                data = b""
            if self.generation != generation:
                return
            try:
                if not data:
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
            except OSError:
                return
