//! What must hold when all is calm: the provider's executions, the payments, their settlements, the books.

use std::sync::Arc;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{PaymentState, Review};
use settle_domain::quoting::{freeze, freeze_unconverted};
use settle_domain::seams::Clock;
use settle_engine::books;
use settle_engine::case::Case;
use settle_provider::wire::{OperationKind, OperationStatus};
use settle_store::conformance::fixtures;
use settle_store::{CorridorKey, StoreResult};

use crate::liar::{Execution, Liar};
use crate::world::World;

/// Fails if the database does not answer; it can then be asked for again.
pub async fn reach(world: &World, liars: &[Arc<Liar>], clock: &dyn Clock) -> StoreResult<()> {
    let all: Vec<Execution> = liars.iter().flat_map(|liar| liar.executions()).collect();
    let mut ours = 0;
    for (merchant, payment) in world.payments() {
        let row = world.store.payment_find(merchant, payment).await?.expect("a payment");
        let asked = [(merchant, payment)];
        let pricing = world.store.payment_pricing_of_many(&asked).await?.pop();
        let operations = world.store.operation_of_many(&asked, clock.now()).await?;
        let pricing = pricing.as_ref().map(|(_, pricing)| pricing.as_str());
        let case = Case::read(row, pricing, operations).expect("it can be read");
        let is_own =
            |id: uuid::Uuid| case.operations.iter().any(|tracked| tracked.operation.operation_id.0 == id);
        let own: Vec<&Execution> = all.iter().filter(|done| is_own(done.operation_id)).collect();
        ours += own.len();
        Examined { world, liars, case: &case, own: &own }.examine(merchant, payment).await?;
    }
    if ours != all.len() {
        world.wrong("something was executed that no payment knows of");
    }
    let checked = books::check(&*world.store, clock).await?;
    for disagreement in checked.disagreements {
        world.wrong(format_args!("the books: {disagreement}"));
    }
    Ok(())
}

struct Examined<'a> {
    world: &'a World,
    liars: &'a [Arc<Liar>],
    case: &'a Case,
    own: &'a [&'a Execution],
}

impl Examined<'_> {
    /// Executions of these kinds that stand: without those that the provider had refused before, and those
    /// whose money came back.
    fn stand(&self, kinds: &[OperationKind]) -> Vec<&Execution> {
        let standing = self.own.iter().filter(|done| !done.was_refused && !done.came_back);
        standing.filter(|done| kinds.contains(&done.kind)).copied().collect()
    }

    async fn examine(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<()> {
        let (world, state) = (self.world, self.case.payment.state);
        let conversions = self.stand(&[OperationKind::Conversion]);
        let payouts = self.stand(&[OperationKind::Payout]);
        let refunds = self.stand(&[OperationKind::Refund]);
        if conversions.len() > 1 {
            world.wrong(format_args!("{payment} is converted {} times", conversions.len()));
        }
        if payouts.len() + refunds.len() > 1 {
            let (paid, refunded) = (payouts.len(), refunds.len());
            world.wrong(format_args!("{payment} is paid {paid} times and refunded {refunded} times"));
        }
        for id in self.own.iter().map(|done| done.operation_id) {
            if self.own.iter().filter(|done| done.operation_id == id).count() > 1 {
                world.wrong(format_args!("{id} is executed twice"));
            }
        }
        // A provider that takes back its word makes states and executions differ; a person must look.
        if self.own.iter().all(|done| !done.was_refused && !done.came_back) {
            let expected = match state {
                PaymentState::Completed { .. } => Some((1, 0)),
                PaymentState::Refunded { .. } => Some((0, 1)),
                PaymentState::Failed(_) => Some((0, 0)),
                _ => None,
            };
            let found = (payouts.len(), refunds.len());
            if expected.is_some_and(|expected| expected != found) {
                world.wrong(format_args!("{payment} is {state:?}, with {found:?} payouts and refunds"));
            }
        }
        if matches!(state, PaymentState::NeedsReview(_)) && self.case.payment.reason.is_none() {
            world.wrong(format_args!("{payment} needs review for no reason"));
        }
        self.is_not_given_up();
        self.amounts(&conversions, &payouts).await?;
        self.told(merchant, payment).await
    }

    /// What the provider has said the truth about does not stay under review.
    fn is_not_given_up(&self) {
        let Some(place) = self.case.awaited() else { return };
        let PaymentState::NeedsReview(review) = self.case.payment.state else { return };
        let tracked = &self.case.operations[place];
        let id = tracked.operation.operation_id.0;
        let status = self.liars.iter().find_map(|liar| liar.status(id));
        let is_as_asked = self.liars.iter().any(|liar| matches!(liar.truth(id), crate::liar::Truth::Done(_)));
        let is_told = is_as_asked || status == Some(OperationStatus::Refused);
        if is_told && !matches!(review, Review::Halted(_)) && !tracked.operation.memory.was_accepted {
            let payment = self.case.payment.payment_id;
            self.world.wrong(format_args!("{payment} stays under review, and {id} is {status:?}"));
        }
    }

    /// What was paid out is what the domain's quoting says of the quote that the conversion took.
    async fn amounts(&self, conversions: &[&Execution], payouts: &[&Execution]) -> StoreResult<()> {
        let payment = &self.case.payment;
        let (PaymentState::Completed { .. }, Some(version)) = (payment.state, payment.corridor_version)
        else {
            return Ok(());
        };
        let order = &payment.order;
        let key = CorridorKey {
            merchant_id: order.merchant_id,
            incoming: order.incoming,
            outgoing: order.outgoing,
        };
        let found = self.world.store.corridor_version(key, version).await?;
        let Some(corridor) = found else {
            self.world.wrong(format_args!("{} has a corridor that is not there", payment.payment_id));
            return Ok(());
        };
        let agreed = &corridor.versioned.corridor;
        let taken = conversions.first().and_then(|done| {
            let quote = done.quote_id.as_deref()?;
            self.liars.iter().find_map(|liar| liar.quote_of(quote))
        });
        let expected = match taken {
            Some(offer) => freeze(agreed, &corridor.pricing, &order.wanted(), &offer),
            None if agreed.skips_conversion() => freeze_unconverted(agreed, &order.wanted()),
            // The provider had refused the conversion before it made it.
            None => return Ok(()),
        };
        let expected = expected.expect("it was quoted");
        if Some(expected) != payment.quote {
            self.world.wrong(format_args!("{}: other amounts than the quote's", payment.payment_id));
        }
        if payouts.iter().any(|paid| paid.amount != expected.quote.outgoing_amount) {
            self.world.wrong(format_args!("{}: another amount was paid", payment.payment_id));
        }
        Ok(())
    }

    /// What is completed has one settlement and one notification, and nothing else has one.
    async fn told(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<()> {
        let id = payment.to_string();
        let store = &*self.world.store;
        let settlements = store.settlement_page(merchant, fixtures::page(100, 0)).await?;
        let number = settlements.records.matches(&format!("\"settlement_id\":\"{id}\"")).count();
        let deliveries = store.delivery_page(merchant, None, fixtures::page(100, 0)).await?;
        let told = deliveries.rows.iter().filter(|row| row.settlement_id.0 == payment.0);
        let expected = usize::from(matches!(self.case.payment.state, PaymentState::Completed { .. }));
        let found = (number, told.count());
        if found != (expected, expected) {
            let state = self.case.payment.state;
            self.world.wrong(format_args!("{id} is {state:?}, with {found:?} settlements and notifications"));
        }
        Ok(())
    }
}
