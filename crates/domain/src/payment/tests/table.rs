//! Every state × event: the rows that lead somewhere; every other combination is refused.

use std::collections::BTreeMap;

use super::{events, standing};
use crate::payment::{PaymentState, Review, transition};

/// State, event, next state, reason, movement.
const TABLE: &str = "
received | quoted | quoted | - | None
received | quote_refused | failed incoming | quote_refused | None
received | currency_not_enabled | failed incoming | currency_not_enabled | None
received | sender_not_registered | failed incoming | sender_not_registered | None
received | step_failed | needs_review halted incoming | unexpected_failure | None
received | cancel | failed incoming | conversion_refused | None

quoted | quote_expired | received | - | None
quoted | conversion_prepared | converting | - | BeginConversion
quoted | conversion_skipped | converted | - | SkipConversion
quoted | step_failed | needs_review halted incoming | unexpected_failure | None
quoted | cancel | failed incoming | conversion_refused | None

converting | conversion_succeeded | converted | - | Convert
converting | conversion_refused | failed incoming | conversion_refused | AbandonConversion
converting | conversion_expired | received | - | AbandonConversion
converting | conversion_unclear | needs_review conversion | conversion_outcome_unknown | None
converting | conversion_returned | needs_review conversion | conversion_outcome_unknown | None
converting | step_failed | needs_review conversion | unexpected_failure | None

converted | payout_prepared | paying_out | - | BeginPayout
converted | step_failed | needs_review halted outgoing | unexpected_failure | None
converted | cancel | failed outgoing | payout_refused | None

paying_out | payout_succeeded | completed | - | Complete
paying_out | payout_refused | failed outgoing | payout_refused | AbandonPayout
paying_out | payout_expired | failed outgoing | payout_refused | AbandonPayout
paying_out | payout_unclear | needs_review payout | payout_outcome_unknown | None
paying_out | payout_returned | needs_review payout | payout_outcome_unknown | None
paying_out | step_failed | needs_review payout | unexpected_failure | None

completed | payout_returned | completed returned | - | Return(Payout)
completed | returned | completed returned | - | Return(Payout)
completed returned | payout_returned | completed returned | - | None
completed | step_failed | completed | - | None
completed returned | step_failed | completed returned | - | None

failed incoming | retry | received | - | None
failed incoming | refund | refunding incoming | - | BeginRefund(Incoming)
failed outgoing | retry | converted | - | None
failed outgoing | refund | refunding outgoing | - | BeginRefund(Outgoing)
failed incoming | step_failed | failed incoming | - | None
failed outgoing | step_failed | failed outgoing | - | None

refunding incoming | refund_succeeded | refunded | - | Refund(Incoming)
refunding incoming | refund_refused | failed incoming | payout_refused | AbandonRefund(Incoming)
refunding incoming | refund_expired | failed incoming | payout_refused | AbandonRefund(Incoming)
refunding incoming | refund_unclear | needs_review refund incoming | payout_outcome_unknown | None
refunding incoming | refund_returned | needs_review refund incoming | payout_outcome_unknown | None
refunding incoming | step_failed | needs_review refund incoming | unexpected_failure | None

refunding outgoing | refund_succeeded | refunded | - | Refund(Outgoing)
refunding outgoing | refund_refused | failed outgoing | payout_refused | AbandonRefund(Outgoing)
refunding outgoing | refund_expired | failed outgoing | payout_refused | AbandonRefund(Outgoing)
refunding outgoing | refund_unclear | needs_review refund outgoing | payout_outcome_unknown | None
refunding outgoing | refund_returned | needs_review refund outgoing | payout_outcome_unknown | None
refunding outgoing | step_failed | needs_review refund outgoing | unexpected_failure | None

refunded | refund_returned | refunded returned | - | Return(Refund)
refunded | returned | refunded returned | - | Return(Refund)
refunded returned | refund_returned | refunded returned | - | None
refunded | step_failed | refunded | - | None
refunded returned | step_failed | refunded returned | - | None

needs_review conversion | conversion_succeeded | converted | - | Convert
needs_review conversion | conversion_refused | failed incoming | conversion_refused | AbandonConversion
needs_review conversion | conversion_expired | failed incoming | conversion_refused | AbandonConversion
needs_review conversion | conversion_unclear | needs_review conversion | - | None
needs_review conversion | conversion_returned | needs_review conversion | - | None
needs_review conversion | step_failed | needs_review conversion | - | None
needs_review conversion | resolve_converted | converted | - | Convert
needs_review conversion | resolve_not_converted | failed incoming | conversion_refused | AbandonConversion

needs_review payout | payout_succeeded | completed | - | Complete
needs_review payout | payout_refused | failed outgoing | payout_refused | AbandonPayout
needs_review payout | payout_expired | failed outgoing | payout_refused | AbandonPayout
needs_review payout | payout_unclear | needs_review payout | - | None
needs_review payout | payout_returned | needs_review payout | - | None
needs_review payout | step_failed | needs_review payout | - | None
needs_review payout | resolve_paid | completed | - | Complete
needs_review payout | resolve_not_paid | failed outgoing | payout_refused | AbandonPayout

needs_review refund incoming | refund_succeeded | refunded | - | Refund(Incoming)
needs_review refund incoming | refund_refused | failed incoming | payout_refused | AbandonRefund(Incoming)
needs_review refund incoming | refund_expired | failed incoming | payout_refused | AbandonRefund(Incoming)
needs_review refund incoming | refund_unclear | needs_review refund incoming | - | None
needs_review refund incoming | refund_returned | needs_review refund incoming | - | None
needs_review refund incoming | step_failed | needs_review refund incoming | - | None
needs_review refund incoming | resolve_refunded | refunded | - | Refund(Incoming)
needs_review refund incoming | resolve_not_refunded | failed incoming | payout_refused | AbandonRefund(Incoming)

needs_review refund outgoing | refund_succeeded | refunded | - | Refund(Outgoing)
needs_review refund outgoing | refund_refused | failed outgoing | payout_refused | AbandonRefund(Outgoing)
needs_review refund outgoing | refund_expired | failed outgoing | payout_refused | AbandonRefund(Outgoing)
needs_review refund outgoing | refund_unclear | needs_review refund outgoing | - | None
needs_review refund outgoing | refund_returned | needs_review refund outgoing | - | None
needs_review refund outgoing | step_failed | needs_review refund outgoing | - | None
needs_review refund outgoing | resolve_refunded | refunded | - | Refund(Outgoing)
needs_review refund outgoing | resolve_not_refunded | failed outgoing | payout_refused | AbandonRefund(Outgoing)

needs_review halted incoming | retry | received | - | None
needs_review halted incoming | refund | refunding incoming | - | BeginRefund(Incoming)
needs_review halted incoming | cancel | failed incoming | conversion_refused | None
needs_review halted incoming | step_failed | needs_review halted incoming | - | None
needs_review halted outgoing | retry | converted | - | None
needs_review halted outgoing | refund | refunding outgoing | - | BeginRefund(Outgoing)
needs_review halted outgoing | cancel | failed outgoing | payout_refused | None
needs_review halted outgoing | step_failed | needs_review halted outgoing | - | None
";

type Row = [String; 3];

fn expected() -> BTreeMap<(String, String), Row> {
    let rows = TABLE.lines().filter(|line| !line.is_empty()).map(|line| {
        let cells: Vec<String> = line.split(" | ").map(str::to_owned).collect();
        let [state, event, to, reason, movement] = cells.try_into().expect("five cells");
        ((state, event), [to, reason, movement])
    });
    let table: BTreeMap<_, _> = rows.collect();
    assert_eq!(table.len(), TABLE.lines().filter(|line| !line.is_empty()).count(), "a row stands twice");
    table
}

/// The state as the table writes it.
fn label(state: PaymentState) -> String {
    let detail = match state {
        PaymentState::Completed { is_returned: true } | PaymentState::Refunded { is_returned: true } => {
            "returned".to_owned()
        }
        PaymentState::Failed(held) | PaymentState::Refunding(held) => held.to_string(),
        PaymentState::NeedsReview(Review::Conversion) => "conversion".to_owned(),
        PaymentState::NeedsReview(Review::Payout) => "payout".to_owned(),
        PaymentState::NeedsReview(Review::Refund(held)) => format!("refund {held}"),
        PaymentState::NeedsReview(Review::Halted(held)) => format!("halted {held}"),
        _ => String::new(),
    };
    format!("{} {detail}", state.name()).trim_end().to_owned()
}

#[test]
fn every_state_and_event_is_as_the_table_says() {
    let mut table = expected();
    for state in PaymentState::ALL {
        for (name, event) in events() {
            let row = transition(&standing(state), event).ok().map(|after| {
                let reason = after.reason.map_or("-".to_owned(), |reason| reason.to_string());
                [label(after.to), reason, format!("{:?}", after.movement)]
            });
            assert_eq!(row, table.remove(&(label(state), name.clone())), "{} × {name}", label(state));
        }
    }
    assert!(table.is_empty(), "rows of states or events that do not exist: {table:?}");
}
