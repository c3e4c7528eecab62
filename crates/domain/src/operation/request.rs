//! What is asked of a provider, in full: the body of the request, the same bytes on every send.

use serde::{Deserialize, Serialize};

use super::OperationKind;
use crate::ids::OperationId;
use crate::money::{Asset, Decimal};

/// The request of an operation. The fields have the names and the order of the provider protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OperationRequest {
    /// Sell what came in for the outgoing asset, at a quote.
    Conversion {
        /// The pay-in whose money is sold.
        payin_reference: String,
        /// The provider's quote.
        quote_id: String,
        /// What is sold.
        sell: Asset,
        /// How much of it.
        sell_amount: Decimal,
        /// What is bought.
        buy: Asset,
    },
    /// Pay out to the merchant's destination.
    Payout {
        /// What is paid.
        asset: Asset,
        /// How much of it.
        amount: Decimal,
        /// Where to.
        destination_reference: String,
    },
    /// Pay back to the payer.
    Refund {
        /// What is paid back.
        asset: Asset,
        /// How much of it.
        amount: Decimal,
        /// The pay-in that is paid back.
        payin_reference: String,
    },
}

impl OperationRequest {
    /// The kind of operation that this asks for.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Conversion { .. } => OperationKind::Conversion,
            Self::Payout { .. } => OperationKind::Payout,
            Self::Refund { .. } => OperationKind::Refund,
        }
    }

    /// The asset and the amount that leave us.
    #[must_use]
    pub const fn outlay(&self) -> (Asset, Decimal) {
        match self {
            Self::Conversion { sell: asset, sell_amount: amount, .. }
            | Self::Payout { asset, amount, .. }
            | Self::Refund { asset, amount, .. } => (*asset, *amount),
        }
    }

    /// The body of the request as compact JSON: what the protocol wants, and the key.
    ///
    /// A provider that sees other bytes under a known key answers with a conflict, so this may never change
    /// for an operation that is already stored.
    #[must_use]
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "strings cannot fail to serialize")]
    pub fn body(&self, operation_id: OperationId) -> String {
        let body = match self {
            Self::Conversion { payin_reference, quote_id, sell, sell_amount, buy } => {
                serde_json::to_string(&ConversionBody {
                    operation_id,
                    payin_reference,
                    quote_id,
                    sell: *sell,
                    sell_amount: *sell_amount,
                    buy: *buy,
                })
            }
            Self::Payout { asset, amount, destination_reference } => serde_json::to_string(&PayoutBody {
                operation_id,
                asset: *asset,
                amount: *amount,
                destination_reference,
            }),
            Self::Refund { asset, amount, payin_reference } => serde_json::to_string(&RefundBody {
                operation_id,
                asset: *asset,
                amount: *amount,
                payin_reference,
            }),
        };
        body.expect("a request is strings")
    }
}

#[derive(Serialize)]
struct ConversionBody<'a> {
    operation_id: OperationId,
    payin_reference: &'a str,
    quote_id: &'a str,
    sell: Asset,
    sell_amount: Decimal,
    buy: Asset,
}

#[derive(Serialize)]
struct PayoutBody<'a> {
    operation_id: OperationId,
    asset: Asset,
    amount: Decimal,
    destination_reference: &'a str,
}

#[derive(Serialize)]
struct RefundBody<'a> {
    operation_id: OperationId,
    asset: Asset,
    amount: Decimal,
    payin_reference: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> [OperationRequest; 3] {
        let (brl, usdc): (Asset, Asset) = ("BRL".parse().unwrap(), "USDC".parse().unwrap());
        [
            OperationRequest::Conversion {
                payin_reference: "pix \"1\"".to_owned(),
                quote_id: "q1".to_owned(),
                sell: brl,
                sell_amount: "1000.00".parse().unwrap(),
                buy: usdc,
            },
            OperationRequest::Payout {
                asset: usdc,
                amount: "181.149631".parse().unwrap(),
                destination_reference: "wallet".to_owned(),
            },
            OperationRequest::Refund {
                asset: brl,
                amount: "1000.00".parse().unwrap(),
                payin_reference: "pix 1".to_owned(),
            },
        ]
    }

    #[test]
    fn the_bytes_of_a_request_never_change() {
        let bodies = requests().map(|request| request.body(OperationId::NIL));
        assert_eq!(
            bodies,
            [
                concat!(
                    r#"{"operation_id":"00000000-0000-0000-0000-000000000000","#,
                    r#""payin_reference":"pix \"1\"","quote_id":"q1","sell":"BRL","sell_amount":"1000.00","#,
                    r#""buy":"USDC"}"#
                ),
                concat!(
                    r#"{"operation_id":"00000000-0000-0000-0000-000000000000","asset":"USDC","#,
                    r#""amount":"181.149631","destination_reference":"wallet"}"#
                ),
                concat!(
                    r#"{"operation_id":"00000000-0000-0000-0000-000000000000","asset":"BRL","#,
                    r#""amount":"1000.00","payin_reference":"pix 1"}"#
                ),
            ]
        );
    }

    #[test]
    fn a_request_is_read_back_from_its_stored_form_with_the_same_bytes() {
        for request in requests() {
            let stored = serde_json::to_string(&request).unwrap();
            let read: OperationRequest = serde_json::from_str(&stored).unwrap();
            assert_eq!(read, request);
            assert_eq!(read.body(OperationId::NIL), request.body(OperationId::NIL));
        }
    }

    #[test]
    fn what_leaves_us_is_what_is_sold_or_paid() {
        let outlays = requests().map(|request| {
            let (asset, amount) = request.outlay();
            format!("{} {asset} {amount}", request.kind())
        });
        assert_eq!(outlays, ["conversion BRL 1000.00", "payout USDC 181.149631", "refund BRL 1000.00"]);
    }
}
