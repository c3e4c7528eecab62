//! What a provider is asked that executes nothing: quotes, look-ups, voids, what it can do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use settle_domain::money::Decimal;
use settle_domain::quoting::ProviderQuote;
use settle_domain::time::Timestamp;
use settle_provider::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use settle_provider::wire::{
    Absence, Capabilities, Operation, OperationKind, OperationStatus, ProblemCode, Quote, QuoteRequest,
};
use settle_testing::virtual_time::pass;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Entry, Liar, TIMEOUT, as_told, problem};

/// How far a look-up lags behind at most.
const LAG_MAX: Duration = Duration::from_secs(2);
/// How long a quote is good for at least, and how much longer at most.
const QUOTE_MIN: Duration = Duration::from_millis(100);
const QUOTE_MORE: Duration = Duration::from_secs(4);
/// The rates that it sells at, in hundredths.
const RATES: [u128; 4] = [543, 500, 617, 100];

impl Liar {
    pub fn quote(&self, request: &QuoteRequest) -> Seen<Quote> {
        if self.world.fault(12) {
            let seen = match self.world.chance.below(5) {
                0 => Seen::Refused(problem(ProblemCode::QuoteRefused, None)),
                1 => Seen::Refused(problem(ProblemCode::SenderNotRegistered, None)),
                2 => Seen::Blocked { status: 503, problem: problem(ProblemCode::ProviderUnavailable, None) },
                3 => Seen::NotSent(NotSentFault::Dns),
                _ => Seen::NoAnswer(LostFault::Closed),
            };
            self.tell(format_args!("quote: {}", seen.told()));
            return seen;
        }
        let rate = *self.world.chance.pick(&RATES);
        let good_for = QUOTE_MIN + self.world.chance.up_to(QUOTE_MORE);
        let buy_amount = request.sell_amount.coefficient() * 1_000_000 / rate;
        let mut inner = self.inner();
        let offer = ProviderQuote {
            quote_id: format!("{}-{}", self.name, inner.quotes.len()),
            sell_amount: request.sell_amount,
            buy_amount: Decimal::new(buy_amount, 6).expect("few digits"),
            rate: Decimal::new(rate, 2),
            expires_at: self.world.right.now().plus(good_for),
        };
        inner.quotes.insert(offer.quote_id.clone(), offer.clone());
        Seen::Answered(Quote {
            quote_id: offer.quote_id,
            sell_amount: offer.sell_amount,
            buy_amount: offer.buy_amount,
            rate: offer.rate,
            expires_at: offer.expires_at,
            payin_reference: None,
            sell: None,
            buy: None,
        })
    }

    pub async fn look_up(&self, id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        let lag = self.world.chance.up_to(LAG_MAX);
        let lag = if self.world.fault(3) { lag } else { Duration::ZERO };
        let (fails, how) = (self.world.fault(5), self.world.chance.below(4));
        pass(self.travel().min(TIMEOUT)).await;
        let absent =
            |instance: &str| Seen::Absent(Absence { operation_id: id, instance: instance.to_owned() });
        if fails {
            return match how {
                0 => Seen::NoAnswer(LostFault::Closed),
                1 => Seen::Unusable { status: 502, fault: AnswerFault::Status(502) },
                // A copy of the provider that was set up anew.
                2 => absent("two"),
                _ => Seen::TurnedAway { status: 403, problem: None },
            };
        }
        if let Some(turned_away) = self.turned_away(stamped_at) {
            return turned_away;
        }
        let seen = {
            let inner = self.inner();
            let as_of = Instant::now().checked_sub(lag).unwrap_or_else(Instant::now);
            let known = inner.entries.get(&id).and_then(|entry| {
                entry
                    .history
                    .iter()
                    .rev()
                    .find(|(at, _)| *at <= as_of)
                    .map(|(_, operation)| operation.clone())
            });
            known.map_or_else(|| absent("one"), |known| Seen::Answered(as_told(known)))
        };
        let status = if let Seen::Answered(found) = &seen { Some(found.status) } else { None };
        self.tell(format_args!("look-up of {id}: {} {status:?}", seen.told()));
        seen
    }

    /// What has not begun is refused for ever.
    pub async fn void(self: &Arc<Liar>, id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        let (never_arrives, is_lost) = (self.world.fault(8), self.world.fault(8));
        pass(self.travel().min(TIMEOUT)).await;
        if never_arrives {
            return Seen::NoAnswer(LostFault::Closed);
        }
        if let Some(turned_away) = self.turned_away(stamped_at) {
            return turned_away;
        }
        let now = {
            let mut inner = self.inner();
            let refused = Operation {
                operation_id: id,
                instance: "one".to_owned(),
                kind: None,
                status: OperationStatus::Refused,
                provider_reference: None,
                asset: None,
                amount: None,
                bought_asset: None,
                bought_amount: None,
                destination_reference: None,
                code: None,
                reason: Some("voided".to_owned()),
            };
            let entry = inner.entries.entry(id).or_insert_with(|| Entry {
                kind: OperationKind::Payout,
                body: Bytes::new(),
                history: vec![(Instant::now(), refused)],
                has_flipped: false,
            });
            entry.now()
        };
        self.tell(format_args!("void of {id}: {:?}", now.status));
        if is_lost { Seen::NoAnswer(LostFault::Closed) } else { Seen::Answered(as_told(now)) }
    }

    pub fn capabilities(&self) -> Seen<Capabilities> {
        if self.world.fault(10) {
            return Seen::NoAnswer(LostFault::Closed);
        }
        Seen::Answered(Capabilities {
            instance: "one".to_owned(),
            sandbox: true,
            pairs: Vec::new(),
            assets: Vec::new(),
            idempotency_window_seconds: self.world.window.as_secs(),
        })
    }
}
