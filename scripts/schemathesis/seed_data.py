"""Makes the completed settlements that a fuzzed service starts with."""

import json
import random
import uuid
from collections.abc import Iterator

# Both kinds of asset scale, both fixed sides, and the nullable fields once with and once without a value.
CORRIDORS = (
    {
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149504",
        "conversion_rate": "5.4321",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.761363",
        "fee_fixed": "0.180000",
    },
    {
        "incoming_currency": "EUR",
        "incoming_amount": "64.11",
        "outgoing_currency": "JPY",
        "outgoing_amount": "10000",
        "conversion_rate": "0.00635",
        "fixed_side": "outgoing",
        "fee_percentage": "0",
        "fee_percentage_amount": None,
        "fee_fixed": "95",
    },
)


def uuid_version_7(bits: int) -> uuid.UUID:
    """A UUID of these bits with version and variant set; the library of Python 3.11 stops at version 5."""
    bits = bits & ~(0xF << 76) | (0x7 << 76)
    return uuid.UUID(int=bits & ~(0x3 << 62) | (0x2 << 62))


def settlement_lines(merchant_id: str, first: int, count: int) -> Iterator[str]:
    """Lines of an import file, numbered from `first`; the same numbers give the same lines."""
    for number in range(first, first + count):
        ids = random.Random(number)
        minutes, seconds = divmod(number, 60)
        time = f"2024-02-29T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}+00:00"
        record = {
            "merchant_id": merchant_id,
            "settlement_id": str(uuid_version_7(ids.getrandbits(128))),
            "completed_at": time,
            "occurred_at": time,
            "payin_reference": f"payin-{number}",
            "payout_reference": f"payout-{number}" if number % 2 == 0 else None,
            "destination_reference": f"destination-{number}",
            **CORRIDORS[number % len(CORRIDORS)],
        }
        yield json.dumps(record)
