//! What somebody asks the engine to settle: the pay-in, what came in, what is to go out and where to.

use super::given::{FieldFault, check_reference, checked_amount};
use crate::ids::MerchantId;
use crate::money::{Asset, Decimal};
use crate::quoting::Wanted;
use crate::time::Timestamp;

/// What came in: known by the receiving account and the reference there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayIn {
    source: String,
    reference: String,
}

impl PayIn {
    /// The receiving account if nobody names one.
    pub const DEFAULT_SOURCE: &'static str = "default";

    /// A pay-in, from `payin_source` and `payin_reference`.
    pub fn new(source: Option<String>, reference: String) -> Result<PayIn, FieldFault> {
        let source = source.unwrap_or_else(|| Self::DEFAULT_SOURCE.to_owned());
        check_reference("payin_source", &source)?;
        check_reference("payin_reference", &reference)?;
        Ok(PayIn { source, reference })
    }

    /// The receiving account: `payin_source`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The reference of the incoming payment: `payin_reference`.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }
}

/// What a payment is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOrder {
    /// The merchant.
    pub merchant_id: MerchantId,
    /// What came in, by name.
    pub payin: PayIn,
    /// The currency that came in.
    pub incoming: Asset,
    /// How much of it.
    pub incoming_amount: Decimal,
    /// The asset that goes out.
    pub outgoing: Asset,
    /// What is to go out, if the outgoing side is fixed.
    pub outgoing_target: Option<Decimal>,
    /// Where to.
    pub destination_reference: String,
    /// When the pay-in took place.
    pub occurred_at: Timestamp,
}

impl PaymentOrder {
    /// The same order with its amounts at the scale of their assets, or every problem at once.
    pub fn checked(self) -> Result<PaymentOrder, Vec<FieldFault>> {
        let mut faults = Vec::new();
        faults.extend(check_reference("destination_reference", &self.destination_reference).err());
        let mut amount = |field, value, asset| {
            checked_amount(field, value, asset).map_err(|fault| faults.push(fault)).ok()
        };
        let incoming_amount = amount("incoming_amount", self.incoming_amount, self.incoming);
        let outgoing_target =
            self.outgoing_target.and_then(|target| amount("outgoing_amount", target, self.outgoing));
        match incoming_amount {
            Some(incoming_amount) if faults.is_empty() => {
                Ok(PaymentOrder { incoming_amount, outgoing_target, ..self })
            }
            _ => Err(faults),
        }
    }

    /// What quoting needs of it.
    #[must_use]
    pub const fn wanted(&self) -> Wanted {
        Wanted { incoming_amount: self.incoming_amount, outgoing_target: self.outgoing_target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PaymentId;
    use uuid::Uuid;

    fn order() -> PaymentOrder {
        PaymentOrder {
            merchant_id: MerchantId::NIL,
            payin: PayIn::new(None, "pix 1".to_owned()).unwrap(),
            incoming: "BRL".parse().unwrap(),
            incoming_amount: "1000".parse().unwrap(),
            outgoing: "USDC".parse().unwrap(),
            outgoing_target: Some("100".parse().unwrap()),
            destination_reference: "wallet".to_owned(),
            occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
        }
    }

    fn fields(order: PaymentOrder) -> Vec<&'static str> {
        order.checked().map_or_else(|faults| faults.iter().map(|fault| fault.field).collect(), |_| Vec::new())
    }

    #[test]
    fn amounts_get_the_scale_of_their_asset() {
        let checked = order().checked().unwrap();
        assert_eq!(checked.incoming_amount.to_string(), "1000.00");
        assert_eq!(checked.outgoing_target.unwrap().to_string(), "100.000000");
        assert_eq!(checked.wanted().outgoing_target, checked.outgoing_target);
    }

    #[test]
    fn each_bad_field_is_named() {
        let decimal = |text: &str| text.parse::<Decimal>().unwrap();
        assert_eq!(fields(order()), [""; 0]);
        assert_eq!(fields(PaymentOrder { incoming_amount: decimal("0.00"), ..order() }), ["incoming_amount"]);
        assert_eq!(
            fields(PaymentOrder { incoming_amount: decimal("0.001"), ..order() }),
            ["incoming_amount"]
        );
        let huge = decimal(&format!("{}.99", "9".repeat(36)));
        assert_eq!(fields(PaymentOrder { incoming_amount: huge, ..order() }), ["incoming_amount"]);
        let huge = Some(decimal(&"9".repeat(25)));
        assert_eq!(fields(PaymentOrder { outgoing_target: huge, ..order() }), ["outgoing_amount"]);
        let target = Some(decimal("0.0000001"));
        assert_eq!(fields(PaymentOrder { outgoing_target: target, ..order() }), ["outgoing_amount"]);
        let bad = PaymentOrder {
            destination_reference: String::new(),
            incoming_amount: Decimal::ZERO,
            outgoing_target: Some(Decimal::ZERO),
            ..order()
        };
        assert_eq!(fields(bad), ["destination_reference", "incoming_amount", "outgoing_amount"]);
        let payin = |source: Option<&str>, reference: &str| {
            PayIn::new(source.map(str::to_owned), reference.to_owned()).map_err(|fault| fault.field)
        };
        assert_eq!(payin(Some(""), "a"), Err("payin_source"));
        assert_eq!(payin(None, ""), Err("payin_reference"));
        assert_eq!(payin(None, "a\nb"), Err("payin_reference"));
        assert!(payin(None, &"a".repeat(512)).is_ok());
        assert_eq!(payin(None, &"a".repeat(513)), Err("payin_reference"));
    }

    #[test]
    fn a_pay_in_has_one_payment_for_ever() {
        let payin = |source: Option<&str>, reference: &str| {
            PayIn::new(source.map(str::to_owned), reference.to_owned()).unwrap()
        };
        let merchant = MerchantId(Uuid::from_u128(7));
        let id = PaymentId::of(merchant, &payin(None, "pix 1"));
        assert_eq!(id, PaymentId::of(merchant, &payin(Some("default"), "pix 1")));
        // Pinned: another way of making ids would settle a pay-in twice.
        assert_eq!(id.to_string(), "b9abb790-7c99-8c06-89d1-8517ddf9183e");
        for other in [
            PaymentId::of(MerchantId(Uuid::from_u128(8)), &payin(None, "pix 1")),
            PaymentId::of(merchant, &payin(None, "pix 2")),
            PaymentId::of(merchant, &payin(Some("bank"), "pix 1")),
            PaymentId::of(merchant, &payin(Some("defaultpix"), " 1")),
        ] {
            assert_ne!(id, other);
        }
    }
}
