"""A DNS server that gives every name the same address on loopback, so that no test leaves the machine.

A questions are answered with ADDRESS, all others (AAAA too) with "no data", and every name below
`.invalid` does not exist. There is no TCP: no answer is long enough to be truncated.
"""

import socket
import socketserver
import struct
import threading

# Where nobody listens: a test delivery is refused at once. The service under test is told to let it through.
ADDRESS = "127.77.0.1"
NETWORK = "127.77.0.0/16"
TTL_SECONDS = 60

TYPE_A = 1
CLASS_IN = 1
# Response, authoritative, recursion available; RD and the opcode are copied from the question.
FLAGS_RESPONSE = 0x8480
FLAGS_COPIED = 0x7900
NAME_ERROR = 3
HEADER = struct.Struct("!HHHHHH")
# "The name of the question": a pointer to the first byte after the header.
QUESTION_NAME_POINTER = 0xC00C


def answer(query: bytes) -> bytes | None:
    """The response to one datagram, or None where there is nothing to say to it."""
    if len(query) < HEADER.size:
        return None
    query_id, flags, questions, *_ = HEADER.unpack_from(query)
    if flags & 0x8000 or questions != 1:
        return None
    labels, end = question_labels(query)
    if labels is None or len(query) < end + 4:
        return None
    question = query[HEADER.size : end + 4]
    question_type, question_class = struct.unpack_from("!HH", query, end)

    response_flags = FLAGS_RESPONSE | (flags & FLAGS_COPIED)
    record = b""
    if labels and labels[-1].lower() == b"invalid":
        response_flags |= NAME_ERROR
    elif (question_type, question_class) == (TYPE_A, CLASS_IN):
        address = socket.inet_aton(ADDRESS)
        record = struct.pack("!HHHIH", QUESTION_NAME_POINTER, TYPE_A, CLASS_IN, TTL_SECONDS, 4) + address
    return HEADER.pack(query_id, response_flags, 1, 1 if record else 0, 0, 0) + question + record


def question_labels(query: bytes) -> tuple[list[bytes] | None, int]:
    """The labels of the first question and the offset behind them; None when they run over the datagram."""
    labels = []
    position = HEADER.size
    while position < len(query):
        length = query[position]
        position += 1
        if length == 0:
            return labels, position
        if length > 63:
            return None, position
        labels.append(query[position : position + length])
        position += length
    return None, position


class Handler(socketserver.BaseRequestHandler):
    """Answers one datagram."""

    def handle(self) -> None:
        query, client = self.request
        response = answer(query)
        if response is not None:
            client.sendto(response, self.client_address)


class DnsStub(socketserver.UDPServer):
    """The server on a port of its own; a context manager that serves from a thread."""

    max_packet_size = 4096

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.serve_forever, name="dns-stub", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, as `ip:port`."""
        host, port = self.server_address[:2]
        return f"{host}:{port}"

    def __enter__(self) -> "DnsStub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
