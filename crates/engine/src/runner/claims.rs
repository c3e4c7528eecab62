//! What a claim reads: the payments that are due, what belongs to them, and which provider each needs next.

use std::collections::{BTreeSet, HashMap, HashSet};

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_store::{OperationRow, PaymentAsk, PaymentRow, StoreError, StoreResult};

use super::Runner;
use crate::case::Case;
use crate::life::{self, corridor_key};

/// A payment that a claim has found.
pub(super) struct Claimed {
    pub(super) merchant: MerchantId,
    pub(super) payment: PaymentId,
    pub(super) case: StoreResult<Case>,
    /// The provider that it needs next, as far as that is known.
    pub(super) provider: Option<ProviderName>,
}

/// What belongs to a payment that a claim has found.
#[derive(Default)]
struct Belongings {
    operations: Vec<OperationRow>,
    pricing: Option<String>,
}

impl Runner {
    /// What is due, with what belongs to it. What cannot be read keeps nobody else from being found.
    pub(super) async fn claimed(&self, asks: &[PaymentAsk]) -> StoreResult<Vec<Claimed>> {
        let claims = self.means.store.payment_claim(asks, &self.left_out(asks), self.due()).await?;
        // What has just come in has asked nothing of anybody.
        let known = claims.found.iter().filter(|row| row.version > 1);
        let mut belongings =
            self.belongings(known.map(|row| (row.merchant_id, row.payment_id)).collect()).await?;
        let read = |row: PaymentRow| {
            let (merchant, payment) = (row.merchant_id, row.payment_id);
            let own = belongings.remove(&payment).unwrap_or_else(|| Ok(Belongings::default()));
            let case = own.and_then(|own| Case::read(row, own.pricing.as_deref(), own.operations));
            Claimed { merchant, payment, case, provider: None }
        };
        let mut claimed: Vec<Claimed> = claims.found.into_iter().map(read).collect();
        let unreadable =
            |(merchant, payment, error)| Claimed { merchant, payment, case: Err(error), provider: None };
        claimed.extend(claims.unreadable.into_iter().map(unreadable));
        self.find_providers(&mut claimed).await?;
        Ok(claimed)
    }

    /// What a claim leaves out: what is in hand, waits for a place, or cannot be read.
    fn left_out(&self, asks: &[PaymentAsk]) -> Vec<(MerchantId, PaymentId)> {
        let asked: HashSet<MerchantId> = asks.iter().map(|ask| ask.merchant_id).collect();
        let left_out = self.hands.known().chain(self.unreadable.resting());
        let left_out = left_out.filter(|(_, merchant)| asked.contains(merchant));
        left_out.map(|(payment, merchant)| (merchant, payment)).collect()
    }

    /// What belongs to payments, with a statement for each kind. If something of it cannot be read, halves
    /// are read until it is found whose that is.
    async fn belongings(
        &self,
        payments: Vec<(MerchantId, PaymentId)>,
    ) -> StoreResult<HashMap<PaymentId, StoreResult<Belongings>>> {
        let store = &self.means.store;
        let mut found: HashMap<PaymentId, StoreResult<Belongings>> = HashMap::new();
        let mut parts = vec![&payments[..]];
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            let read = async {
                let operations = store.operation_of_many(part, self.means.clock.now()).await?;
                Ok((operations, store.payment_pricing_of_many(part).await?))
            };
            match (read.await, part) {
                (Ok((operations, pricing)), _) => {
                    let mut own: HashMap<PaymentId, Belongings> = HashMap::new();
                    for row in operations {
                        own.entry(row.payment_id).or_default().operations.push(row);
                    }
                    for (payment, pricing) in pricing {
                        own.entry(payment).or_default().pricing = Some(pricing);
                    }
                    found.extend(own.into_iter().map(|(payment, own)| (payment, Ok(own))));
                }
                (Err(error @ StoreError::Unexpected(_)), [(_, payment)]) => {
                    found.insert(*payment, Err(error));
                }
                (Err(StoreError::Unexpected(_)), part) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([first, second]);
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Finds out which provider each payment needs next.
    async fn find_providers(&self, claimed: &mut [Claimed]) -> StoreResult<()> {
        let mut new = BTreeSet::new();
        for Claimed { case, provider, .. } in &mut *claimed {
            let Ok(case) = case else { continue };
            *provider = life::provider(case).cloned();
            if provider.is_none() {
                new.insert(corridor_key(case));
            }
        }
        let corridors = match self.means.corridors.newest_of_many(&*self.means.store, &new).await {
            // One of them cannot be read: the lives that need it say so.
            Err(StoreError::Unexpected(_)) => HashMap::new(),
            found => found?,
        };
        for Claimed { case, provider, .. } in claimed.iter_mut().filter(|one| one.provider.is_none()) {
            let corridor = case.as_ref().ok().and_then(|case| corridors.get(&corridor_key(case)));
            *provider = corridor.map(|corridor| corridor.versioned.corridor.terms().provider.clone());
        }
        Ok(())
    }
}
