import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const SECRET = process.env.WEBHOOK_SECRET;
const TOLERANCE_SECONDS = 300;
// A notification has about 1 kB.
const BODY_BYTES_MAX = 1 << 20;
if (!SECRET) throw new Error("WEBHOOK_SECRET is not set");

function isAuthentic(timestamp, signature, body) {
  const hmac = createHmac("sha256", SECRET).update(`${timestamp}.`).update(body);
  const expected = Buffer.from("sha256=" + hmac.digest("hex"));
  const received = Buffer.from(signature);
  if (expected.length !== received.length || !timingSafeEqual(expected, received)) return false;
  return Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS;
}

const server = createServer((request, response) => {
  const chunks = [];
  let length = 0;
  request.on("data", (chunk) => {
    length += chunk.length;
    if (length > BODY_BYTES_MAX) request.destroy();
    else chunks.push(chunk);
  });
  request.on("end", () => {
    // The raw bytes: the signature is over these, not over parsed JSON.
    const body = Buffer.concat(chunks);
    const timestamp = request.headers["service-timestamp"] ?? "";
    const signature = request.headers["service-signature"] ?? "";
    if (!isAuthentic(timestamp, signature, body)) {
      response.writeHead(400).end();
      return;
    }
    const notification = JSON.parse(body);
    // Here, store `notification` under its service-delivery-id. Answer only then.
    response.writeHead(204).end();
  });
});

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  console.log(`listening on port ${server.address().port}`);
});
