//! What a provider says that it did, beside what it was asked: a sentence for whoever must decide.

use std::fmt::Write as _;

use super::{OperationKind, OperationRequest, Report};
use crate::money::Decimal;

impl Report {
    /// What was asked, and what the provider says that it did instead. It does not judge: see
    /// [`Report::judge`].
    #[must_use]
    pub fn deviation(&self, request: &OperationRequest) -> String {
        format!("asked to {}, the provider says that it {}", asked(request), self.done())
    }

    fn done(&self) -> String {
        let moved = named(self.amount, self.asset.as_deref());
        match self.kind {
            Some(OperationKind::Conversion) => {
                let bought = named(self.bought_amount, self.bought_asset.as_deref());
                format!("sold {moved} and bought {bought}")
            }
            Some(OperationKind::Refund) => format!("paid {moved} back"),
            Some(OperationKind::Payout) => {
                let mut paid = format!("paid {moved}");
                if let Some(destination) = &self.destination_reference {
                    let _ = write!(paid, " to {destination}");
                }
                paid
            }
            None => format!("moved {moved}"),
        }
    }
}

fn asked(request: &OperationRequest) -> String {
    match request {
        OperationRequest::Conversion { sell, sell_amount, buy, .. } => {
            format!("sell {sell_amount} {sell} for {buy}")
        }
        OperationRequest::Payout { asset, amount, destination_reference } => {
            format!("pay {amount} {asset} to {destination_reference}")
        }
        OperationRequest::Refund { asset, amount, .. } => format!("pay {amount} {asset} back"),
    }
}

fn named(amount: Option<Decimal>, asset: Option<&str>) -> String {
    let amount = amount.map_or_else(|| "an unknown amount of".to_owned(), |amount| amount.to_string());
    format!("{amount} {}", asset.unwrap_or("an unknown asset"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::ReportStatus;

    fn report(kind: Option<OperationKind>, amount: &str, asset: &str) -> Report {
        Report {
            kind,
            status: ReportStatus::Succeeded,
            asset: Some(asset.to_owned()),
            amount: Some(amount.parse().unwrap()),
            bought_asset: None,
            bought_amount: None,
            destination_reference: None,
            provider_reference: None,
            refusal: None,
            reason: None,
        }
    }

    #[test]
    fn both_sides_are_told() {
        let payout = OperationRequest::Payout {
            asset: "USDC".parse().unwrap(),
            amount: "181.149631".parse().unwrap(),
            destination_reference: "wallet".to_owned(),
        };
        let short = report(Some(OperationKind::Payout), "163.034667", "USDC");
        assert_eq!(
            short.deviation(&payout),
            "asked to pay 181.149631 USDC to wallet, the provider says that it paid 163.034667 USDC"
        );
        let elsewhere = Report { destination_reference: Some("another".to_owned()), ..short };
        assert!(elsewhere.deviation(&payout).ends_with("it paid 163.034667 USDC to another"));
        let nothing = Report { kind: None, amount: None, asset: None, ..elsewhere };
        assert!(nothing.deviation(&payout).ends_with("it moved an unknown amount of an unknown asset"));
        let refund = OperationRequest::Refund {
            asset: "BRL".parse().unwrap(),
            amount: "1000.00".parse().unwrap(),
            payin_reference: "pix".to_owned(),
        };
        assert_eq!(
            report(Some(OperationKind::Refund), "900.00", "BRL").deviation(&refund),
            "asked to pay 1000.00 BRL back, the provider says that it paid 900.00 BRL back"
        );
        let conversion = OperationRequest::Conversion {
            payin_reference: "pix".to_owned(),
            quote_id: "q".to_owned(),
            sell: "BRL".parse().unwrap(),
            sell_amount: "1000.00".parse().unwrap(),
            buy: "USDC".parse().unwrap(),
        };
        let bought = Report {
            bought_asset: Some("USDC".to_owned()),
            bought_amount: Some("92.08".parse().unwrap()),
            ..report(Some(OperationKind::Conversion), "1000.00", "BRL")
        };
        assert_eq!(
            bought.deviation(&conversion),
            "asked to sell 1000.00 BRL for USDC, the provider says that it sold 1000.00 BRL and bought 92.08 USDC"
        );
    }
}
