//! Settlements for the demo: made-up payments, with real quotes.

use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::quote::{FixedSide, QuoteInput, quote};
use settle_domain::seams::Clock;
use settle_domain::settlement::{CompletedSettlement, Origin, Settlement};
use settle_wiring::system::{SystemClock, SystemEntropy};

use crate::commands::CommandError;

/// Payments: the currency, the amount, the price of one USDC in that currency, and its decimals.
const PAYMENTS: [(&str, &str, &str, u8); 4] = [
    ("BRL", "1000.00", "5.43", 2),
    ("EUR", "249.90", "0.92", 2),
    ("JPY", "18000", "151.3", 0),
    ("MXN", "3499.50", "18.07", 2),
];
const FEE_PERCENTAGE: &str = "1.5";
const FEE_FIXED: &str = "0.250000";
const USDC_DECIMALS: u8 = 6;

/// A settlement that completes now.
pub(super) fn settlement(
    merchant_id: MerchantId,
    number: usize,
) -> Result<CompletedSettlement, CommandError> {
    let (currency, amount, rate, decimals) = PAYMENTS[number % PAYMENTS.len()];
    let wrong = |what: &str| CommandError::Refused(format!("{what} of the demo is not right"));
    let decimal = |text: &str| text.parse().map_err(|_| wrong("an amount"));
    let input = QuoteInput {
        fixed_side: FixedSide::Incoming,
        amount: decimal(amount)?,
        incoming_decimals: decimals,
        outgoing_decimals: USDC_DECIMALS,
        conversion_rate: decimal(rate)?,
        fee_percentage: decimal(FEE_PERCENTAGE)?,
        fee_fixed: decimal(FEE_FIXED)?,
    };
    let quoted = quote(&input).map_err(|_| wrong("a quote"))?;
    let now = SystemClock.now();
    let settlement = Settlement {
        settlement_id: SettlementId::new(now, &SystemEntropy),
        completed_at: Some(now),
        occurred_at: now,
        payin_reference: format!("PAYIN-{number:06}"),
        payout_reference: Some(format!("PAYOUT-{number:06}")),
        destination_reference: "wallet-treasury".to_owned(),
        incoming_currency: currency.to_owned(),
        incoming_amount: quoted.incoming_amount,
        outgoing_currency: "USDC".to_owned(),
        outgoing_amount: Some(quoted.outgoing_amount),
        conversion_rate: input.conversion_rate,
        fixed_side: FixedSide::Incoming,
        fee_percentage: input.fee_percentage,
        fee_percentage_amount: Some(quoted.fee_percentage_amount),
        fee_fixed: input.fee_fixed,
    };
    Ok(CompletedSettlement { merchant_id, settlement, pricing: None, origin: Origin::Hand })
}
