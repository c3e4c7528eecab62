import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { link, mkdir, open, rm } from "node:fs/promises";
import { createServer } from "node:http";

const SECRET = process.env.WEBHOOK_SECRET;
if (!SECRET) throw new Error("WEBHOOK_SECRET is not set");
// Each notification becomes a file here, named after its delivery.
const FOLDER = "notifications";
const TOLERANCE_SECONDS = 300;
// A notification has about 1 kB.
const BODY_BYTES_MAX = 64 * 1024;

function isAuthentic(timestamp, signature, body) {
  const hmac = createHmac("sha256", SECRET).update(`${timestamp}.`).update(body);
  const expected = Buffer.from("sha256=" + hmac.digest("hex"));
  const received = Buffer.from(signature);
  if (expected.length !== received.length || !timingSafeEqual(expected, received)) return false;
  return Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS;
}

// The whole body; null if it is too long.
async function bodyOf(request) {
  if (Number(request.headers["content-length"]) > BODY_BYTES_MAX) return null;
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > BODY_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

// Stores a notification as a whole or not at all. False if it was stored before.
async function store(deliveryId, body) {
  const unfinished = `${FOLDER}/${randomUUID()}.unfinished`;
  const file = await open(unfinished, "wx");
  try {
    await file.writeFile(body);
    await file.sync();
    await link(unfinished, `${FOLDER}/${deliveryId}.json`);
    return true;
  } catch (fault) {
    if (fault.code === "EEXIST") return false;
    throw fault;
  } finally {
    await file.close();
    await rm(unfinished);
  }
}

async function receive(request) {
  // The raw bytes: the signature is over these, not over parsed JSON.
  const body = await bodyOf(request);
  if (body === null) return 413;
  const timestamp = request.headers["service-timestamp"] ?? "";
  const signature = request.headers["service-signature"] ?? "";
  if (!isAuthentic(timestamp, signature, body)) return 400;
  const deliveryId = request.headers["service-delivery-id"] ?? "";
  if (!/^[0-9a-f-]{36}$/.test(deliveryId)) return 400;
  const notification = JSON.parse(body);
  if (await store(deliveryId, body)) {
    // New, and safe on disk. Leave what takes long to another process.
    console.log(`settlement ${notification.settlement_id}`);
  }
  return 204;
}

await mkdir(FOLDER, { recursive: true });
const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
  const failed = (fault) => {
    console.error(fault);
    return 500;
  };
  response.writeHead(await receive(request).catch(failed), { connection: "close" }).end();
});
server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  console.log(`listening on port ${server.address().port}`);
});
