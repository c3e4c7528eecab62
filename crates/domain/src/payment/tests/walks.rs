//! Random walks of payments through the machine, with operations that are refused, given up and move after
//! all: after every step the books agree.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{expired, refusal};
use crate::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use crate::ledger::{Account, Held, Late, Movement, SignedAmount, excess, postings};
use crate::money::{Asset, Decimal};
use crate::operation::{News, OperationKind, OperationStatus};
use crate::payment::{
    Act, Mark, Outcome, PayIn, Payment, PaymentEvent, PaymentId, PaymentOrder, PaymentState, QuoteRefusal,
    Review, transition,
};
use crate::pricing::CorridorPricing;
use crate::quoting::{FrozenQuote, ProviderQuote, Split, freeze, freeze_unconverted};

const INCOMING: &str = "1000.00";
const QUOTED: &str = "184.162062";

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

/// One payment, its operations as the provider knows them, and its accounts.
pub(super) struct Walk {
    payment: Payment,
    pricing: CorridorPricing,
    frozen: FrozenQuote,
    is_converted_at_provider: bool,
    /// Operations that count as not done: each may move after all.
    closed: Vec<OperationKind>,
    /// Of those, the ones that may yet move, as the provider said.
    revived: Vec<OperationKind>,
    /// Of those, the ones that have moved.
    moved: Vec<OperationKind>,
    conversions: i32,
    /// What payouts moved beyond what was owed.
    excess: SignedAmount,
    balances: BTreeMap<(Account, Asset), SignedAmount>,
}

impl Walk {
    pub(super) fn new(outgoing: &str) -> Walk {
        let terms = CorridorTerms {
            incoming: "BRL".parse().unwrap(),
            outgoing: outgoing.parse().unwrap(),
            fee_percentage: decimal("1.5"),
            fee_fixed: decimal("0.25"),
            minimum: None,
            maximum: None,
            provider: "sandbox".parse().unwrap(),
            alert_after: ALERT_AFTER,
        };
        let order = PaymentOrder {
            merchant_id: crate::ids::MerchantId::NIL,
            payin: PayIn::new(None, "pix".to_owned()).unwrap(),
            incoming: terms.incoming,
            incoming_amount: decimal(INCOMING),
            outgoing: terms.outgoing,
            outgoing_target: None,
            destination_reference: "wallet".to_owned(),
            occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
        };
        let corridor = Corridor::new(terms).unwrap();
        let pricing =
            CorridorPricing::new(decimal("1"), Some("acme".to_owned()), Some(decimal("33"))).unwrap();
        let offer = ProviderQuote {
            quote_id: "q".to_owned(),
            sell_amount: decimal(INCOMING),
            buy_amount: decimal(QUOTED),
            rate: None,
            expires_at: order.occurred_at,
        };
        let frozen = if corridor.skips_conversion() {
            freeze_unconverted(&corridor, &order.wanted())
        } else {
            freeze(&corridor, &pricing, &order.wanted(), &offer)
        };
        let mut walk = Walk {
            payment: Payment {
                payment_id: PaymentId::of(order.merchant_id, &order.payin),
                received_at: order.occurred_at,
                order,
                state: PaymentState::Received,
                version: 1,
                reason: None,
                blocked: None,
                expired_quotes: 0,
                late: None,
                corridor_version: None,
                provider: None,
                quote: None,
                split: None,
            },
            pricing,
            frozen: frozen.unwrap(),
            is_converted_at_provider: !corridor.skips_conversion(),
            closed: Vec::new(),
            revived: Vec::new(),
            moved: Vec::new(),
            conversions: 0,
            excess: SignedAmount::zero(outgoing.parse().unwrap()),
            balances: BTreeMap::new(),
        };
        walk.post(Movement::Receive, None, None);
        walk
    }

    /// The payment after the ordinary way.
    pub(super) fn completed(mut self) -> Payment {
        for event in [
            PaymentEvent::Quoted,
            PaymentEvent::ConversionPrepared,
            PaymentEvent::Operation(OperationKind::Conversion, News::Succeeded),
            PaymentEvent::PayoutPrepared,
            PaymentEvent::Operation(OperationKind::Payout, News::Succeeded),
        ] {
            self.step(event, decimal(QUOTED), None);
        }
        assert_eq!(self.payment.state, PaymentState::Completed { is_returned: false });
        self.payment
    }

    fn post(&mut self, movement: Movement, late_bought: Option<Decimal>, resolved: Option<Decimal>) {
        let books = crate::ledger::Books { late_bought, ..self.payment.books() };
        let mut lines = postings(movement, &books).unwrap_or_else(|fault| panic!("{movement:?}: {fault}"));
        let moved = match movement {
            Movement::Complete => resolved.map(|more| excess(OperationKind::Payout, more, &books)),
            _ => None,
        };
        if let Some(moved) = moved {
            let moved = moved.unwrap();
            let more = moved.lines().iter().filter(|line| line.account == Account::Astray);
            self.excess = more.fold(self.excess, |sum, line| sum.plus(line.amount).unwrap());
            lines = lines.merged(moved).unwrap();
        }
        for line in lines.lines() {
            let zero = SignedAmount::zero(line.asset);
            let balance = self.balances.entry((line.account, line.asset)).or_insert(zero);
            *balance = balance.plus(line.amount).unwrap();
        }
    }

    /// An event that the world could bring now, chosen by two numbers.
    fn event(&self, choice: u8, which: u8) -> Option<PaymentEvent> {
        let kind = OperationKind::ALL[usize::from(which) % 3];
        let among = |kinds: &[OperationKind]| kinds.get(usize::from(which) % kinds.len().max(1)).copied();
        Some(match choice {
            0 => PaymentEvent::Quoted,
            1 => PaymentEvent::QuoteRefused(QuoteRefusal::Refused),
            2 => PaymentEvent::QuoteExpired,
            3 | 4 if self.is_converted_at_provider => PaymentEvent::ConversionPrepared,
            3 | 4 => PaymentEvent::ConversionSkipped,
            5 | 6 => PaymentEvent::PayoutPrepared,
            7 | 8 => PaymentEvent::Operation(kind, News::Succeeded),
            9 => PaymentEvent::Operation(kind, News::Refused(refusal(kind))),
            10 => PaymentEvent::Operation(kind, News::Refused(expired(kind))),
            11 => PaymentEvent::Operation(kind, News::Unclear),
            12 => PaymentEvent::Operation(kind, News::Returned),
            13 => PaymentEvent::Operation(among(&self.closed)?, News::LateSucceeded),
            14 => PaymentEvent::Operation(among(&self.closed)?, News::Revived),
            15 => PaymentEvent::Operation(among(&self.revived)?, News::LateSucceeded),
            16 => PaymentEvent::Operation(
                among(&self.moved).filter(|kind| *kind != OperationKind::Conversion)?,
                News::LateReturned,
            ),
            17 => PaymentEvent::StepFailed,
            18 | 19 => PaymentEvent::Operator(Act::Retry),
            20 => PaymentEvent::Operator(Act::Refund),
            21 => PaymentEvent::Operator(Act::Cancel),
            22 => PaymentEvent::Operator(Act::Returned),
            _ => PaymentEvent::Operator(Act::Resolve(Outcome::ALL[usize::from(which) % 6])),
        })
    }

    /// Applies an event, if the machine allows it.
    fn step(&mut self, event: PaymentEvent, bought: Decimal, excess: Option<Decimal>) {
        let before = self.payment.state;
        // Whoever cancels what is in flight knows that its provider never got it.
        let is_unsent = event == PaymentEvent::Operator(Act::Cancel);
        let status = before.awaits().map(|_| OperationStatus::Unknown);
        let standing = self.payment.standing(status, is_unsent);
        let Ok(after) = transition(&standing, event) else {
            return;
        };
        if event == PaymentEvent::Quoted {
            self.payment.quote = Some(self.frozen);
        }
        match after.movement {
            Movement::SkipConversion => self.payment.split = Some(Split::unconverted(&self.frozen).unwrap()),
            Movement::Convert
            | Movement::Adopt(Late { kind: OperationKind::Conversion, .. }, Held::Incoming) => {
                self.payment.split = Some(Split::of(&self.frozen, &self.pricing, bought).unwrap());
            }
            _ => {}
        }
        self.remember(event, before, after.movement, after.mark);
        let resolved = matches!(event, PaymentEvent::Operator(_)).then_some(excess).flatten();
        self.post(after.movement, Some(bought), resolved);
        self.payment.state = after.to;
        self.payment.reason = after.reason;
        self.payment.expired_quotes = after.expired_quotes;
        self.payment.late = after.late;
    }

    /// What becomes of the operations.
    fn remember(
        &mut self,
        event: PaymentEvent,
        before: PaymentState,
        movement: Movement,
        mark: Option<Mark>,
    ) {
        let take = |kinds: &mut Vec<OperationKind>, kind| {
            kinds.iter().position(|known| *known == kind).map(|at| kinds.remove(at))
        };
        match event {
            PaymentEvent::Operation(kind, News::Refused(_)) => self.closed.push(kind),
            PaymentEvent::Operation(kind, News::LateSucceeded) => {
                take(&mut self.revived, kind).or_else(|| take(&mut self.closed, kind));
                self.moved.push(kind);
            }
            PaymentEvent::Operation(kind, News::Revived) => {
                take(&mut self.closed, kind);
                self.revived.push(kind);
            }
            PaymentEvent::Operation(kind, News::LateReturned) => {
                take(&mut self.moved, kind);
            }
            _ => {}
        }
        match mark {
            Some(Mark::GivenUp) => self.closed.extend(before.awaits()),
            Some(Mark::Adopted(kind)) => {
                let late = self.payment.late.unwrap();
                take(if late.moved { &mut self.moved } else { &mut self.revived }, kind);
            }
            Some(Mark::Succeeded) | None => {}
        }
        let converted = match movement {
            Movement::Convert | Movement::MoveLate(OperationKind::Conversion) => true,
            Movement::Adopt(late, held) => {
                late.kind == OperationKind::Conversion && !late.moved && held == Held::Incoming
            }
            _ => false,
        };
        self.conversions += i32::from(converted);
    }

    fn balance(&self, account: Account, asset: Asset) -> SignedAmount {
        self.balances.get(&(account, asset)).copied().unwrap_or(SignedAmount::zero(asset))
    }

    /// The sum of some accounts in an asset.
    fn sum(&self, accounts: &[Account], asset: Asset) -> SignedAmount {
        let balances = accounts.iter().map(|account| self.balance(*account, asset));
        balances.fold(SignedAmount::zero(asset), |sum, balance| sum.plus(balance).unwrap())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let Payment { state, order, .. } = &self.payment;
        let (incoming, outgoing) = (order.incoming, order.outgoing);
        for (&(account, asset), balance) in &self.balances {
            prop_assert!(!balance.is_negative() || account.may_be_negative(), "{account} {asset} {balance}");
        }
        let all = |asset| Account::ALL.iter().map(move |account| (*account, asset));
        for asset in [incoming, outgoing] {
            let sum = all(asset).fold(SignedAmount::zero(asset), |sum, (account, asset)| {
                sum.plus(self.balance(account, asset)).unwrap()
            });
            prop_assert!(sum.is_zero(), "{asset}: {sum}");
        }
        let came_in = SignedAmount::of(order.incoming_amount).unwrap();
        let goes_out = SignedAmount::of(self.frozen.quote.outgoing_amount).unwrap();
        let if_so = |is_so: bool, amount: SignedAmount, asset: Asset| {
            if is_so { amount } else { SignedAmount::zero(asset) }
        };
        let awaits = |kind| state.awaits() == Some(kind);
        let is_kept_for_refund = matches!(
            state,
            PaymentState::Refunding(Held::Outgoing)
                | PaymentState::NeedsReview(Review::Refund(Held::Outgoing))
        );
        let is_completed = matches!(state, PaymentState::Completed { .. });
        let is_refunded = matches!(state, PaymentState::Refunded { .. });
        let expected = [
            (Account::Payer, came_in.negated(), incoming),
            (Account::ClientFunds, if_so(state.held() == Some(Held::Incoming), came_in, incoming), incoming),
            (Account::Converting, if_so(awaits(OperationKind::Conversion), came_in, incoming), incoming),
            (Account::Refunding, if_so(awaits(OperationKind::Refund), came_in, incoming), incoming),
            (Account::PayingOut, if_so(awaits(OperationKind::Payout), goes_out, outgoing), outgoing),
            (
                Account::Payable,
                if_so(state.held() == Some(Held::Outgoing) || is_kept_for_refund, goes_out, outgoing),
                outgoing,
            ),
        ];
        for (account, amount, asset) in expected {
            prop_assert_eq!(self.balance(account, asset), amount, "{} in {:?}", account, state);
        }
        let paid = if is_completed { &[Account::Paid, Account::Returned][..] } else { &[Account::Paid] };
        prop_assert_eq!(self.sum(paid, outgoing), if_so(is_completed, goes_out, outgoing));
        let back =
            if is_refunded { &[Account::Refunded, Account::Returned][..] } else { &[Account::Refunded] };
        prop_assert_eq!(self.sum(back, incoming), if_so(is_refunded, came_in, incoming));
        let sold =
            (0..self.conversions).fold(SignedAmount::zero(incoming), |sum, _| sum.plus(came_in).unwrap());
        if self.is_converted_at_provider {
            prop_assert_eq!(self.balance(Account::Exchange, incoming), sold, "exchange in {:?}", state);
        }
        self.check_astray(came_in, goes_out)?;
        let completed = self.payment.completed(order.occurred_at, None);
        prop_assert!(completed.is_some() || !is_completed, "a completed payment can be recorded");
        Ok(())
    }

    /// What stands as astray is what moved late and was neither adopted nor returned, and what was too much.
    fn check_astray(&self, came_in: SignedAmount, goes_out: SignedAmount) -> Result<(), TestCaseError> {
        let (incoming, outgoing) = (self.payment.order.incoming, self.payment.order.outgoing);
        let late = |kind, amount: SignedAmount, zero: SignedAmount| {
            let moved = self.moved.iter().filter(|moved| **moved == kind);
            moved.fold(zero, |sum, _| sum.plus(amount).unwrap())
        };
        let payouts = late(OperationKind::Payout, goes_out, self.excess);
        let refunds = late(OperationKind::Refund, came_in, SignedAmount::zero(incoming));
        if incoming == outgoing {
            prop_assert_eq!(self.balance(Account::Astray, incoming), payouts.plus(refunds).unwrap());
        } else {
            prop_assert_eq!(self.balance(Account::Astray, outgoing), payouts);
            prop_assert_eq!(self.balance(Account::Astray, incoming), refunds);
        }
        Ok(())
    }
}

type Step = (u8, u8, u64, Option<u32>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // What was bought, from half of what was quoted to a little more; what was paid beyond what was owed.
    let bought = 92_000_000..190_000_000_u64;
    prop::collection::vec((0..28_u8, any::<u8>(), bought, prop::option::of(0..1_000_u32)), 1..80)
}

fn walk(outgoing: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut walk = Walk::new(outgoing);
    walk.check()?;
    let owed = walk.frozen.quote.outgoing_amount;
    for (choice, which, bought, more) in steps {
        let Some(event) = walk.event(choice, which) else {
            continue;
        };
        let bought = Decimal::new(u128::from(bought), 6).unwrap();
        let more =
            more.map(|more| Decimal::new(owed.coefficient() + u128::from(more), owed.scale()).unwrap());
        walk.step(event, bought, more);
        walk.check()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_converted_payment_keeps_the_books(steps in steps()) {
        walk("USDC", steps)?;
    }

    #[test]
    fn an_unconverted_payment_keeps_the_books(steps in steps()) {
        walk("BRL", steps)?;
    }
}
