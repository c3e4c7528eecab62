//! What becomes of an operation that has just come.

use std::time::Duration;

use settle_domain::money::{Decimal, asset_decimals};
use settle_domain::time::Timestamp;
use settle_provider::wire::{OperationStatus, Problem, ProblemCode};

use super::Ledger;
use crate::behaviour::Behaviour;
use crate::rates::{self, RateFault};
use crate::record::{Asked, Change, Record};

impl Ledger {
    /// The record of an operation that has just come.
    pub(super) fn begin(&self, asked: Asked, behaviour: Behaviour, now: Timestamp) -> Record {
        let mut record = Record {
            operation_id: asked.operation_id(),
            status: OperationStatus::Succeeded,
            provider_reference: format!("sandbox-{}", self.changes.len() + 1),
            amount: Some(at_scale(&asked)),
            bought: None,
            code: None,
            reason: None,
            times: 1,
            due: None,
            asked: None,
        };
        let refused = self.refused(&asked, behaviour, now);
        record.asked = Some(asked);
        match refused {
            Ok(bought) => record.bought = bought,
            Err((code, reason)) => {
                refuse(&mut record, code, reason);
                return record;
            }
        }
        let later = |wait: Duration| now.plus(wait).as_micros();
        match behaviour {
            Behaviour::Pending(wait) => {
                (record.status, record.times) = (OperationStatus::Pending, 0);
                record.due = Some((later(wait), Change::Execute));
            }
            Behaviour::Late(wait) => {
                (record.status, record.times) = (OperationStatus::Pending, 0);
                record.due = Some((later(wait), Change::Arrive));
            }
            Behaviour::Flip(wait) => {
                let code = record.asked.as_ref().map_or(ProblemCode::PayoutRefused, Asked::refusal);
                refuse(&mut record, code, "sandbox:flip".to_owned());
                record.due = Some((later(wait), Change::Execute));
            }
            Behaviour::Return(wait) => record.due = Some((later(wait), Change::Return)),
            Behaviour::Short => scale(&mut record, 9),
            Behaviour::More => scale(&mut record, 11),
            _ => {}
        }
        record
    }

    /// What a conversion buys; or why an operation is refused.
    fn refused(
        &self,
        asked: &Asked,
        behaviour: Behaviour,
        now: Timestamp,
    ) -> Result<Option<Decimal>, (ProblemCode, String)> {
        let refused = |reason: &str| Err((asked.refusal(), reason.to_owned()));
        let decimals = asset_decimals(asked.asset());
        let fits = decimals.is_some_and(|decimals| asked.amount().at_scale(decimals).is_some());
        if decimals.is_none() {
            return refused("asset_unsupported");
        }
        if !fits || asked.amount().is_zero() {
            return refused("amount_invalid");
        }
        let bought = match asked {
            Asked::Conversion(request) => match rates::redeem(request, &self.instance, now) {
                Ok(bought) => Some(bought),
                Err(RateFault::Expired) => return refused(Problem::QUOTE_EXPIRED),
                Err(fault) => return refused(&fault.to_string()),
            },
            Asked::Payout(_) | Asked::Refund(_) => None,
        };
        match behaviour {
            Behaviour::Refuse => refused("sandbox:refuse"),
            Behaviour::Unregistered => {
                Err((ProblemCode::SenderNotRegistered, "sandbox:unregistered".to_owned()))
            }
            Behaviour::Expired if !self.expired.contains(asked.reference()) => {
                refused(Problem::QUOTE_EXPIRED)
            }
            _ => Ok(bought),
        }
    }
}

/// What is moved, at the scale of its asset.
fn at_scale(asked: &Asked) -> Decimal {
    let amount = asked.amount();
    asset_decimals(asked.asset()).and_then(|decimals| amount.at_scale(decimals)).unwrap_or(amount)
}

fn refuse(record: &mut Record, code: ProblemCode, reason: String) {
    (record.status, record.times) = (OperationStatus::Refused, 0);
    (record.code, record.reason) = (Some(code), Some(reason));
}

/// Makes a tenth less or more of what is moved; of a conversion, of what is bought.
fn scale(record: &mut Record, tenths: u128) {
    let scaled = |amount: Decimal| {
        let coefficient = amount.coefficient().saturating_mul(tenths) / 10;
        Decimal::new(coefficient, amount.scale()).unwrap_or(amount)
    };
    match record.bought {
        Some(bought) => record.bought = Some(scaled(bought)),
        None => record.amount = record.amount.map(scaled),
    }
}
