//! What two payments have in common if somebody may have paid, or told of it, twice.

use std::time::Duration;

use uuid::Uuid;

use super::PaymentOrder;
use crate::ids::uuid_of;

/// The same for payments of a merchant that brought the same amount in for the same destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Likeness(pub Uuid);

impl Likeness {
    /// How soon one payment must follow another that it is like, to be told of.
    pub const WITHIN: Duration = Duration::from_hours(24);
}

impl PaymentOrder {
    /// What it has in common with another that is likely the same once more. What goes out is left out: who
    /// pays twice may take another asset the second time.
    #[must_use]
    pub fn likeness(&self) -> Likeness {
        let (code, amount) = (self.incoming.code(), self.incoming_amount.to_string());
        let parts = [code.as_bytes(), amount.as_bytes(), self.destination_reference.as_bytes()];
        Likeness(uuid_of("settle likeness", &parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MerchantId;
    use crate::payment::PayIn;

    fn order(reference: &str, incoming: &str, amount: &str, destination: &str) -> PaymentOrder {
        let order = PaymentOrder {
            merchant_id: MerchantId::NIL,
            payin: PayIn::new(None, reference.to_owned()).unwrap(),
            incoming: incoming.parse().unwrap(),
            incoming_amount: amount.parse().unwrap(),
            outgoing: "USDC".parse().unwrap(),
            outgoing_target: None,
            destination_reference: destination.to_owned(),
            occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
        };
        order.checked().unwrap()
    }

    #[test]
    fn amount_and_destination_make_payments_alike() {
        let first = order("pix 1", "BRL", "1000", "wallet").likeness();
        assert_eq!(first, order("pix 2", "BRL", "1000.00", "wallet").likeness());
        for other in [
            order("pix 1", "EUR", "1000", "wallet"),
            order("pix 1", "BRL", "1000.01", "wallet"),
            order("pix 1", "BRL", "1000", "wallet 2"),
        ] {
            assert_ne!(first, other.likeness(), "{other:?}");
        }
    }
}
