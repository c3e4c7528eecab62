import hashlib
import hmac
import json
import os
import re
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WEBHOOK_SECRET"].encode()
# Each notification becomes a file here, named after its delivery.
FOLDER = "notifications"
TOLERANCE_SECONDS = 300
# A notification has about 1 kB.
BODY_BYTES_MAX = 64 * 1024


def is_authentic(timestamp: str, signature: str, body: bytes) -> bool:
    message = timestamp.encode() + b"." + body
    expected = "sha256=" + hmac.new(SECRET, message, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        return False
    return abs(time.time() - int(timestamp)) <= TOLERANCE_SECONDS


def store(delivery_id: str, body: bytes) -> bool:
    """Stores a notification as a whole or not at all. False if it was stored before."""
    with tempfile.NamedTemporaryFile(dir=FOLDER) as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, f"{FOLDER}/{delivery_id}.json")
        except FileExistsError:
            return False
    return True


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        try:
            status = self.receive()
        except ValueError:
            status = 400
        self.send_response(status)
        self.end_headers()

    def receive(self) -> int:
        # The raw bytes: the signature is over these, not over parsed JSON.
        body = self.body()
        if body is None:
            return 413
        timestamp = self.headers.get("service-timestamp", "")
        signature = self.headers.get("service-signature", "")
        if not is_authentic(timestamp, signature, body):
            return 400
        delivery_id = self.headers.get("service-delivery-id", "")
        if not re.fullmatch("[0-9a-f-]{36}", delivery_id):
            return 400
        notification = json.loads(body)
        if store(delivery_id, body):
            # New, and safe on disk. Leave what takes long to another process.
            print("settlement", notification["settlement_id"], flush=True)
        return 204

    def body(self) -> bytes | None:
        """The whole body; None if it is too long."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.bytes_within(int(self.headers.get("content-length", "0")), BODY_BYTES_MAX)
        body = b""
        # Each chunk follows its length and ends a line; an empty one is the last.
        while length := int(self.rfile.readline(100).split(b";")[0], 16):
            chunk = self.bytes_within(length, BODY_BYTES_MAX - len(body))
            if chunk is None:
                return None
            body += chunk
            self.rfile.readline(3)
        return body

    def bytes_within(self, length: int, limit: int) -> bytes | None:
        return self.rfile.read(length) if 0 <= length <= limit else None


os.makedirs(FOLDER, exist_ok=True)
server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
