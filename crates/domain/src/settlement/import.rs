//! Reading a completed settlement from outside: the record's fields, `merchant_id`, and optionally `pricing`
//! and `unchecked`.
//!
//! The parser finds every problem of an object at once and names its field. It guesses nothing: it refuses an
//! unknown field, because a mistyped optional field would otherwise be lost in silence.
//!
//! Amounts get the scale of their asset; the parser refuses an amount with more decimals. An asset that is
//! not in our table keeps the scale it came with: refusing it would keep an operator from recording a payment
//! that did happen.
//!
//! An outgoing amount that is more than the record's own figures allow is refused: more was paid out than
//! came in. `unchecked` lets it pass, for records from elsewhere that round otherwise, and is remembered.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::fault::ImportFault;
use super::limit::check_outgoing_amount;
use super::{CompletedSettlement, FIELDS, Origin, Settlement};
use crate::error_code::ErrorCode;
use crate::ids::MerchantId;
use crate::money::{Decimal, asset_decimals};
use crate::pricing::InternalPricing;

/// The longest reference, in bytes.
const REFERENCE_BYTES_MAX: usize = 512;
/// The longest currency code, in bytes.
const CURRENCY_BYTES_MAX: usize = 16;

const MERCHANT_ID: &str = "merchant_id";
const PRICING: &str = "pricing";
/// The field that lets pass an outgoing amount that the record's own figures do not allow.
pub const UNCHECKED: &str = "unchecked";

/// Reads a completed settlement from a JSON object.
pub fn parse(object: &Map<String, Value>) -> Result<CompletedSettlement, Vec<ImportFault>> {
    let mut fields = Fields { object, problems: Vec::new() };
    fields.refuse_unknown();
    let is_unchecked = fields.flag(UNCHECKED);
    let mut parsed = read(&mut fields);
    if let Some(completed) = &mut parsed
        && let Err(fault) = check_outgoing_amount(&completed.settlement)
    {
        if is_unchecked {
            completed.origin = Origin::Unchecked;
        } else {
            fields.problems.push(fault);
        }
    }
    match parsed {
        Some(settlement) if fields.problems.is_empty() => Ok(settlement),
        _ => Err(fields.problems),
    }
}

/// Reads every field before it unwraps any, so that it finds all problems.
fn read(fields: &mut Fields<'_>) -> Option<CompletedSettlement> {
    let merchant_id: Option<MerchantId> = fields.parsed(MERCHANT_ID);
    let settlement_id = fields.parsed("settlement_id");
    let completed_at = fields.nullable("completed_at", Fields::parsed);
    let occurred_at = fields.parsed("occurred_at");
    let payin_reference = fields.reference("payin_reference");
    let payout_reference = fields.nullable("payout_reference", Fields::reference);
    let destination_reference = fields.reference("destination_reference");
    let incoming_currency = fields.currency("incoming_currency");
    let incoming_amount = fields.positive_amount("incoming_amount", incoming_currency.as_deref());
    let outgoing_currency = fields.currency("outgoing_currency");
    let outgoing = outgoing_currency.as_deref();
    let outgoing_amount = fields.nullable("outgoing_amount", |fields, name| fields.amount(name, outgoing));
    let conversion_rate = fields.rate("conversion_rate");
    let fixed_side = fields.parsed("fixed_side");
    let fee_percentage = fields.percentage("fee_percentage");
    let fee_percentage_amount =
        fields.nullable("fee_percentage_amount", |fields, name| fields.amount(name, outgoing));
    let fee_fixed = fields.amount("fee_fixed", outgoing);
    let pricing = fields.pricing();
    Some(CompletedSettlement {
        merchant_id: merchant_id?,
        settlement: Settlement {
            settlement_id: settlement_id?,
            completed_at,
            occurred_at: occurred_at?,
            payin_reference: payin_reference?,
            payout_reference,
            destination_reference: destination_reference?,
            incoming_currency: incoming_currency?,
            incoming_amount: incoming_amount?,
            outgoing_currency: outgoing_currency?,
            outgoing_amount,
            conversion_rate: conversion_rate?,
            fixed_side: fixed_side?,
            fee_percentage: fee_percentage?,
            fee_percentage_amount,
            fee_fixed: fee_fixed?,
        },
        pricing,
        origin: Origin::Hand,
    })
}

struct Fields<'a> {
    object: &'a Map<String, Value>,
    problems: Vec<ImportFault>,
}

impl<'a> Fields<'a> {
    fn problem(&mut self, field: &str, code: ErrorCode, problem: impl Into<String>) {
        self.problems.push(ImportFault { field: field.to_owned(), code, problem: problem.into() });
    }

    fn refused<T>(&mut self, field: &str, problem: impl Into<String>) -> Option<T> {
        self.problem(field, ErrorCode::ValidationFailed, problem);
        None
    }

    fn refuse_unknown(&mut self) {
        for name in self.object.keys() {
            let is_ours = [MERCHANT_ID, PRICING, UNCHECKED].contains(&name.as_str());
            if !is_ours && !FIELDS.contains(&name.as_str()) {
                self.problem(name, ErrorCode::ValidationFailed, "is not a field of a settlement");
            }
        }
    }

    /// A value that must be a non-empty string.
    fn text(&mut self, field: &str) -> Option<&'a str> {
        match self.object.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            None | Some(Value::Null | Value::String(_)) => {
                self.problem(field, ErrorCode::Required, "is required");
                None
            }
            Some(_) => self.refused(field, "must be a string"),
        }
    }

    /// A field that may be absent or null; `read` parses any other value.
    fn nullable<T>(&mut self, field: &str, read: impl FnOnce(&mut Self, &str) -> Option<T>) -> Option<T> {
        match self.object.get(field) {
            None | Some(Value::Null) => None,
            Some(_) => read(self, field),
        }
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, field: &str) -> Option<T> {
        let text = self.text(field)?;
        text.parse().map_or_else(|fault: T::Err| self.refused(field, fault.to_string()), Some)
    }

    fn reference(&mut self, field: &str) -> Option<String> {
        let text = self.text(field)?;
        if text.len() > REFERENCE_BYTES_MAX {
            return self.refused(field, format!("is longer than {REFERENCE_BYTES_MAX} bytes"));
        }
        if text.chars().any(char::is_control) {
            return self.refused(field, "contains a control character");
        }
        Some(text.to_owned())
    }

    fn currency(&mut self, field: &str) -> Option<String> {
        let text = self.text(field)?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.len() > CURRENCY_BYTES_MAX || !text.bytes().all(allowed) {
            return self
                .refused(field, format!("is not a code of up to {CURRENCY_BYTES_MAX} letters and digits"));
        }
        Some(text.to_owned())
    }

    /// An amount at the scale of its asset, if we know the asset.
    fn amount(&mut self, field: &str, asset: Option<&str>) -> Option<Decimal> {
        let amount: Decimal = self.parsed(field)?;
        let Some((asset, decimals)) = asset.and_then(|code| Some((code, asset_decimals(code)?))) else {
            return Some(amount);
        };
        let rescaled = amount.at_scale(decimals);
        rescaled.map_or_else(
            || self.refused(field, format!("does not fit {asset}: at most {decimals} decimals")),
            Some,
        )
    }

    fn positive_amount(&mut self, field: &str, asset: Option<&str>) -> Option<Decimal> {
        let amount = self.amount(field, asset)?;
        if amount.is_zero() { self.refused(field, "must be more than zero") } else { Some(amount) }
    }

    fn rate(&mut self, field: &str) -> Option<Decimal> {
        let rate: Decimal = self.parsed(field)?;
        if rate.is_zero() { self.refused(field, "must be more than zero") } else { Some(rate.normalized()) }
    }

    fn percentage(&mut self, field: &str) -> Option<Decimal> {
        let percentage: Decimal = self.parsed(field)?;
        if percentage >= Decimal::HUNDRED {
            return self.refused(field, "must be less than 100 percent");
        }
        Some(percentage.normalized())
    }

    /// A field that says yes or no; absent or null is no.
    fn flag(&mut self, field: &str) -> bool {
        match self.object.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => self.refused(field, "must be true or false").unwrap_or(false),
        }
    }

    fn pricing(&mut self) -> Option<InternalPricing> {
        let value = self.object.get(PRICING).filter(|value| !value.is_null())?;
        match InternalPricing::deserialize(value) {
            Ok(pricing) => Some(pricing),
            Err(fault) => self.refused(PRICING, fault.to_string()),
        }
    }
}
