import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WEBHOOK_SECRET"].encode()
TOLERANCE_SECONDS = 300
# A notification has about 1 kB.
BODY_BYTES_MAX = 1 << 20


def is_authentic(timestamp: str, signature: str, body: bytes) -> bool:
    message = timestamp.encode() + b"." + body
    expected = "sha256=" + hmac.new(SECRET, message, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        return False
    return abs(time.time() - int(timestamp)) <= TOLERANCE_SECONDS


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        # The raw bytes: the signature is over these, not over parsed JSON.
        body = self.body()
        timestamp = self.headers.get("service-timestamp", "")
        signature = self.headers.get("service-signature", "")
        if body is None or not is_authentic(timestamp, signature, body):
            self.answer(400)
            return
        notification = json.loads(body)
        # Here, store `notification` under its service-delivery-id. Answer only then.
        self.answer(204)

    def body(self) -> bytes | None:
        """The whole body; None if it is too long."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            length = int(self.headers.get("content-length", "0"))
            return self.rfile.read(length) if length <= BODY_BYTES_MAX else None
        body = b""
        # Each chunk follows its length and ends a line; an empty one is the last.
        while length := int(self.rfile.readline(20), 16):
            if len(body) + length > BODY_BYTES_MAX:
                return None
            body += self.rfile.read(length)
            self.rfile.readline(2)
        return body

    def answer(self, status: int):
        self.send_response(status)
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
