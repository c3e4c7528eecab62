// A merchant's evening with the TypeScript client: types by openapi-typescript, calls by openapi-fetch.
//
// The compiler checks that the types fit what is called here; the run, that the service keeps to them.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import createClient from "openapi-fetch";

import type { components, paths, webhooks } from "./merchants.js";
import type { components as operatorComponents, paths as operatorPaths } from "./operators.js";

type Notification = webhooks["settlementCompleted"]["post"]["requestBody"]["content"]["application/json"];
type Headers = webhooks["settlementCompleted"]["post"]["parameters"]["header"];
type ErrorCode = components["schemas"]["ErrorCode"];
type CompletedSettlement = operatorComponents["schemas"]["CompletedSettlement"];

const SECRET = "whsec_journey";
const ARRIVAL_MS_MAX = 20_000;

interface Arrival {
  headers: Headers;
  text: string;
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

/** An endpoint: what arrives is an event, and the answer is what `status` says then. */
function receiver(status: () => number): Server {
  const server = createServer(async (request, response) => {
    const text = await bodyOf(request);
    response.writeHead(status()).end();
    server.emit("arrival", { headers: request.headers as unknown as Headers, text } satisfies Arrival);
  });
  return server;
}

async function arrival(server: Server, expected: () => Promise<unknown>): Promise<Arrival> {
  const arrived = once(server, "arrival", { signal: AbortSignal.timeout(ARRIVAL_MS_MAX) });
  await expected();
  return ((await arrived) as [Arrival])[0];
}

function verified({ headers, text }: Arrival): Notification {
  const message = `${headers["service-timestamp"]}.${text}`;
  const signature = `sha256=${createHmac("sha256", SECRET).update(message).digest("hex")}`;
  assert.equal(headers["service-signature"], signature);
  const notification = JSON.parse(text) as Notification;
  assert.equal(headers["service-event"], notification.event);
  return notification;
}

/** What a client makes of a code: the compiler must allow one that nobody knows. */
function said(code: ErrorCode): string {
  switch (code) {
    case "validation_failed":
      return "fix the fields";
    case "locked":
      return "come back later";
    default:
      return `something new: ${code}`;
  }
}

const [api, operatorApi, token] = process.argv.slice(2);
assert(api && operatorApi && token, "usage: journey.js API OPERATOR TOKEN");

const operator = createClient<operatorPaths>({
  baseUrl: operatorApi,
  headers: { Authorization: `Bearer ${token}` },
});
const merchant = await operator.POST("/operator/v1/merchants", { body: { name: "TypeScript" } });
assert(merchant.data, JSON.stringify(merchant.error));
const merchant_id = merchant.data.merchant_id;
const key = await operator.POST("/operator/v1/merchants/{merchant_id}/keys", {
  params: { path: { merchant_id } },
  body: { label: "journey" },
});
assert(key.data, JSON.stringify(key.error));

const client = createClient<paths>({
  baseUrl: api,
  headers: { Authorization: `Bearer ${key.data.api_key}` },
});
let status = 204;
const endpoint = receiver(() => status);
const webhook_url = `${await listen(endpoint)}/hook`;

const set = await client.PUT("/v1/webhook", { body: { webhook_url, webhook_secret: SECRET } });
assert.deepEqual(set.data, { webhook_url, webhook_secret_set: true });

const test = await arrival(endpoint, async () => {
  const tested = await client.POST("/v1/webhook/test");
  assert(tested.data, JSON.stringify(tested.error));
  assert.deepEqual([tested.data.delivered, tested.data.status, tested.data.error], [true, 204, null]);
});
assert.equal(test.headers["service-test"], "true");
assert.equal(verified(test).payin_reference, "TEST");

status = 503;
const settlement: CompletedSettlement = {
  merchant_id,
  settlement_id: "0190d3c4-7c00-7000-8000-00000000c0de",
  occurred_at: "2026-01-31T12:30:55Z",
  completed_at: "2026-01-31T12:31:02.12Z",
  payin_reference: "payin-1",
  destination_reference: "wallet-main",
  incoming_currency: "BRL",
  incoming_amount: "1000.00",
  outgoing_currency: "USDC",
  outgoing_amount: "181.149631",
  conversion_rate: "5.43",
  fixed_side: "incoming",
  fee_percentage: "1.5",
  fee_fixed: "0.25",
};
const first = await arrival(endpoint, async () => {
  const recorded = await operator.POST("/operator/v1/settlements", { body: [settlement] });
  assert.deepEqual(recorded.data, { recorded: 1, unchanged: 0, notified: 1 });
});
assert.equal(verified(first).settlement_id, settlement.settlement_id);

const page = await client.GET("/v1/settlements", { params: { query: { limit: 10 } } });
assert(page.data, JSON.stringify(page.error));
const { event, ...record } = verified(first);
assert.equal(event, "settlement.completed");
assert.deepEqual(page.data, { settlements: [record], limit: 10, offset: 0, total: 1 });

// Clearing the endpoint ends what waits for it; then it can be sent again.
await client.PUT("/v1/webhook", { body: { webhook_url: null } });
const dead = await client.GET("/v1/webhook/deliveries", { params: { query: { status: "dead" } } });
const delivery = dead.data?.deliveries[0];
assert(delivery, JSON.stringify(dead));
await client.PUT("/v1/webhook", { body: { webhook_url, webhook_secret: SECRET } });
status = 200;
const again = await arrival(endpoint, async () => {
  const redelivered = await client.POST("/v1/webhook/deliveries/{delivery_id}/redeliver", {
    params: { path: { delivery_id: delivery.delivery_id } },
  });
  assert.deepEqual([redelivered.data?.status, redelivered.data?.attempts], ["pending", 0]);
});
assert.equal(again.text, first.text);
assert.equal(again.headers["service-delivery-id"], delivery.delivery_id);

const refused = await client.GET("/v1/settlements", { params: { query: { limit: 201 } } });
assert.equal(refused.response.status, 422);
assert(refused.error);
assert.equal(said(refused.error.error.code), "fix the fields");
assert.deepEqual(refused.error.error.fields, [{ field: "limit", code: "validation_failed" }]);

// A service of tomorrow, with codes of tomorrow.
const tomorrow = createServer((_, response) => {
  const error = { code: "of_tomorrow", message: "New.", fields: [{ field: "limit", code: "out_of_fashion" }] };
  response.writeHead(422, { "content-type": "application/json" }).end(JSON.stringify({ error }));
});
const later = createClient<paths>({ baseUrl: await listen(tomorrow) });
const unknown = await later.GET("/v1/settlements");
assert(unknown.error);
assert.equal(said(unknown.error.error.code), "something new: of_tomorrow");
assert.equal(said(unknown.error.error.fields?.[0]?.code ?? ""), "something new: out_of_fashion");

for (const server of [endpoint, tomorrow]) {
  server.close();
  server.closeAllConnections();
}
console.log("typescript: passed");
