"""A merchant's evening with the Python client that openapi-python-client generates: journey.py API OPERATOR TOKEN.

The folder of the generated packages is on PYTHONPATH.
"""

import hashlib
import hmac
import http.server
import json
import queue
import sys
import threading
from collections.abc import Callable

from settle_client import AuthenticatedClient, Client
from settle_client.api.settlements import list_settlements
from settle_client.api.webhook_configuration import show_webhook, test_webhook, update_webhook
from settle_client.api.webhook_deliveries import list_webhook_deliveries, redeliver_webhook_delivery
from settle_client.models import (
    DeliveryStatus,
    Error,
    KnownErrorCode,
    SettlementNotification,
    WebhookConfigurationRequest,
)
from settle_for_operators_client import AuthenticatedClient as OperatorClient
from settle_for_operators_client.api.keys import create_key, list_keys, revoke_key
from settle_for_operators_client.api.merchants import create_merchant, list_merchants
from settle_for_operators_client.api.settlements import record_settlements
from settle_for_operators_client.models import CompletedSettlement, KeyRequest, MerchantRequest

SECRET = "whsec_journey"
ARRIVAL_SECONDS_MAX = 20
SETTLEMENT = {
    "settlement_id": "0190d3c4-7c00-7000-8000-00000000c0de",
    "occurred_at": "2026-01-31T12:30:55+00:00",
    "completed_at": "2026-01-31T12:31:02+00:00",
    "payin_reference": "payin-1",
    "destination_reference": "wallet-main",
    "incoming_currency": "BRL",
    "incoming_amount": "1000.00",
    "outgoing_currency": "USDC",
    "outgoing_amount": "181.149631",
    "conversion_rate": "5.43",
    "fixed_side": "incoming",
    "fee_percentage": "1.5",
    "fee_fixed": "0.25",
}


def serve(answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], tuple[int, bytes]]) -> str:
    """A server on loopback, which answers as the function says; returns its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            status, content = answer(self, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Endpoint:
    """A merchant's receiver: it verifies what arrives, and answers with `status`."""

    def __init__(self) -> None:
        self.status = 204
        self.arrivals: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.url = f"{serve(self.receive)}/hook"

    def receive(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        status = self.status
        self.arrivals.put((dict(request.headers), body))
        return status, b""

    def arrival(self) -> tuple[dict[str, str], bytes, SettlementNotification]:
        """The next notification, verified, and read as the generated type."""
        headers, body = self.arrivals.get(timeout=ARRIVAL_SECONDS_MAX)
        message = headers["service-timestamp"].encode() + b"." + body
        signature = "sha256=" + hmac.new(SECRET.encode(), message, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(headers["service-signature"], signature), headers
        notification = SettlementNotification.from_dict(json.loads(body))
        assert notification.event == headers["service-event"] == "settlement.completed"
        assert not notification.additional_properties, "the document names every field"
        return headers, body, notification


def tomorrow(*_: object) -> tuple[int, bytes]:
    """A service of tomorrow, with codes of tomorrow."""
    fields = [{"field": "limit", "code": "out_of_fashion"}]
    return 422, json.dumps({"error": {"code": "of_tomorrow", "message": "New.", "fields": fields}}).encode()


def main(api: str, operator_api: str, token: str) -> None:
    operator = OperatorClient(base_url=operator_api, token=token)
    merchant = create_merchant.sync(client=operator, body=MerchantRequest(name="Python"))
    key = create_key.sync(merchant.merchant_id, client=operator, body=KeyRequest(label="journey"))
    lost = create_key.sync(merchant.merchant_id, client=operator, body=KeyRequest())
    assert revoke_key.sync(merchant.merchant_id, lost.key_id, client=operator).revoked_at is not None
    listed = list_keys.sync(merchant.merchant_id, client=operator)
    assert [entry.label for entry in listed.keys] == ["journey", None] and listed.next_after is None
    assert merchant in list_merchants.sync(client=operator, limit=200).merchants

    client = AuthenticatedClient(base_url=api, token=key.api_key)
    endpoint = Endpoint()
    request = WebhookConfigurationRequest(webhook_url=endpoint.url, webhook_secret=SECRET)
    assert update_webhook.sync(client=client, body=request).webhook_secret_set
    assert show_webhook.sync(client=client).webhook_url == endpoint.url

    tested = test_webhook.sync(client=client)
    assert (tested.delivered, tested.status, tested.error) == (True, 204, None), tested
    headers, _, notification = endpoint.arrival()
    assert (headers["service-test"], notification.payin_reference) == ("true", "TEST")

    endpoint.status = 503
    settlement = CompletedSettlement.from_dict({"merchant_id": str(merchant.merchant_id), **SETTLEMENT})
    recorded = record_settlements.sync(client=operator, body=settlement)
    assert (recorded.recorded, recorded.notified) == (1, 1), recorded
    headers, first, notification = endpoint.arrival()

    page = list_settlements.sync(client=client, limit=10)
    assert (page.total, page.limit, len(page.settlements)) == (1, 10, 1), page
    sent = notification.to_dict()
    del sent["event"]
    assert page.settlements[0].to_dict() == sent

    # Clearing the endpoint ends what waits for it; then it can be sent again.
    update_webhook.sync(client=client, body=WebhookConfigurationRequest(webhook_url=None))
    (dead,) = list_webhook_deliveries.sync(client=client, status=DeliveryStatus.DEAD).deliveries
    assert str(dead.delivery_id) == headers["service-delivery-id"]
    update_webhook.sync(client=client, body=request)
    endpoint.status = 200
    requeued = redeliver_webhook_delivery.sync(dead.delivery_id, client=client)
    assert (requeued.status, requeued.attempts) == (DeliveryStatus.PENDING, 0), requeued
    headers, again, _ = endpoint.arrival()
    assert (headers["service-delivery-id"], again) == (str(dead.delivery_id), first)

    refused = list_settlements.sync(client=client, limit=201)
    assert isinstance(refused, Error) and refused.error.code is KnownErrorCode.VALIDATION_FAILED
    assert [(field.field, field.code) for field in refused.error.fields] == [
        ("limit", KnownErrorCode.VALIDATION_FAILED)
    ]
    stranger = AuthenticatedClient(base_url=api, token=lost.api_key)
    assert show_webhook.sync(client=stranger).error.code is KnownErrorCode.INVALID_CREDENTIALS

    unknown = list_settlements.sync(client=Client(base_url=serve(tomorrow)))
    assert isinstance(unknown, Error) and unknown.error.code == "of_tomorrow"
    assert unknown.error.fields[0].code == "out_of_fashion"
    print("python: passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
