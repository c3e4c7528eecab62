//! Two people who act on what they saw a moment ago. What they say of the past is true; whether something
//! may still happen they do not know, and the engine has to find out.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::operation::OperationKind;
use settle_domain::payment::{Act, Outcome, PaymentState};
use settle_engine::acts::{ActError, People, act};
use settle_engine::advance::Deed;
use settle_engine::case::Case;
use settle_engine::life::Means;
use settle_engine::wake::EngineWake;
use settle_testing::virtual_time::pass;

use crate::liar::{Liar, Truth};
use crate::world::World;

/// How long an operator rests between two acts, and thinks between looking and acting, at most.
const RESTS_MAX: Duration = Duration::from_millis(1_500);
const THINKS_MAX: Duration = Duration::from_millis(500);

pub struct Operator {
    pub name: &'static str,
    pub world: Arc<World>,
    pub liars: Vec<Arc<Liar>>,
    pub means: Means,
    pub wake: EngineWake,
}

impl Operator {
    pub async fn run(self) {
        while !self.world.is_calm() {
            pass(self.world.chance.up_to(RESTS_MAX)).await;
            let payments = self.world.payments();
            if payments.is_empty() {
                continue;
            }
            let (merchant, payment) = *self.world.chance.pick(&payments);
            let Ok(Some(case)) = self.means.read(merchant, payment).await else { continue };
            pass(self.world.chance.up_to(THINKS_MAX)).await;
            let Some(deed) = self.deed(&case) else { continue };
            let version = case.payment.version;
            let act = |people| act(&self.means, &self.wake, (merchant, payment), version, &deed, people);
            let mut done = act(People::One).await;
            if matches!(done, Err(ActError::OffQuote)) {
                // Another operator has seen the same.
                done = act(People::Two).await;
            }
            let done = done.map(|case| case.payment.state.name()).map_err(|error| error.to_string());
            self.world.tell(format_args!("{} {:?} {payment} v{version}: {done:?}", self.name, deed.act));
        }
    }

    /// What the operator wants of the payment that it saw.
    fn deed(&self, case: &Case) -> Option<Deed> {
        let chance = &self.world.chance;
        let drawn = chance.below(12);
        let mut amount = None;
        let wanted = match case.payment.state {
            PaymentState::Failed(_) if drawn < 3 => Act::Refund,
            PaymentState::Failed(_) if drawn < 10 => Act::Retry,
            PaymentState::Received | PaymentState::Quoted | PaymentState::Converted if drawn < 3 => {
                Act::Cancel
            }
            // What its provider never got; meanwhile the engine may send it.
            PaymentState::Converting | PaymentState::PayingOut | PaymentState::Refunding(_)
                if drawn < 6 && case.allowed_acts().any(|act| act == Act::Cancel) =>
            {
                Act::Cancel
            }
            PaymentState::NeedsReview(_) if case.awaited().is_none() && case.payment.late.is_none() => {
                *chance.pick(&[Act::Retry, Act::Refund, Act::Cancel])
            }
            PaymentState::Converting
            | PaymentState::PayingOut
            | PaymentState::Refunding(_)
            | PaymentState::NeedsReview(_) => {
                let (outcome, bought) = self.outcome(case)?;
                amount = bought;
                Act::Resolve(outcome)
            }
            PaymentState::Completed { .. } | PaymentState::Refunded { .. } => {
                let last = case.operations.last()?;
                let came_back = self.truth(last.operation.operation_id.0) == Truth::Returned;
                came_back.then_some(Act::Returned)?
            }
            _ => return None,
        };
        Some(Deed {
            act: wanted,
            by: Actor::Command,
            evidence: "seen".to_owned(),
            destination_reference: None,
            amount,
            provider_reference: None,
        })
    }

    /// What became of the operation that the payment waits for, or that moved without it.
    fn outcome(&self, case: &Case) -> Option<(Outcome, Option<settle_domain::money::Decimal>)> {
        let operation = &case.operations[case.questioned()?].operation;
        let (done, not_done) = match operation.request.kind() {
            OperationKind::Conversion => (Outcome::Converted, Outcome::NotConverted),
            OperationKind::Payout => (Outcome::Paid, Outcome::NotPaid),
            OperationKind::Refund => (Outcome::Refunded, Outcome::NotRefunded),
        };
        match self.truth(operation.operation_id.0) {
            Truth::Done(bought) => Some((done, bought)),
            Truth::Otherwise(Some(bought)) => Some((done, Some(bought))),
            // Half of it was paid: neither word would be true.
            Truth::Otherwise(None) => None,
            Truth::NotDone | Truth::Returned => Some((not_done, None)),
        }
    }

    fn truth(&self, id: uuid::Uuid) -> Truth {
        let truths = self.liars.iter().map(|liar| liar.truth(id));
        truths.into_iter().find(|truth| *truth != Truth::NotDone).unwrap_or(Truth::NotDone)
    }
}
