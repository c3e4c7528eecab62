//! The checks, one by one.

use std::time::Duration;

use bytes::Bytes;
use settle_domain::money::{Decimal, asset_decimals};
use uuid::Uuid;

use super::{Check, Finding, Kit, Terms, Verdict};
use crate::provider::Provider;
use crate::seen::Seen;
use crate::wire::{
    ConversionRequest, Operation, OperationKind, OperationStatus, PayoutRequest, QuoteRequest, RefundRequest,
};

pub(super) const CAPABILITIES: &str = "capabilities are signed and complete";
const FORGED: &str = "a forged signature is turned away";
const OLD: &str = "an old signature is turned away";
const ABSENT: &str = "what never came is a signed 404";
const EXACT: &str = "amounts come back exactly";
const AGAIN: &str = "the same operation again is executed once";
const CONFLICT: &str = "another body under a known key is a conflict";
const SLOW: &str = "look-ups tell the truth during a slow call";
const VOID: &str = "a void holds against a late request";
const VOID_DONE: &str = "a void leaves what was done as it is";
const CONVERSION: &str = "a conversion gives what its quote says, once";
const REFUND: &str = "a refund is executed once";
const LISTED: &str = "the list of changes has what was done";

/// Older than what a provider may accept.
const OLD_AGE: Duration = Duration::from_mins(10);
/// The digits of amounts that show every rounding.
const TELLING_DIGITS: &str = "1.234567890123456789";
/// What a sandbox is asked to sell, in units of the incoming asset.
const SOLD: Decimal = match Decimal::new(1_234, 0) {
    Some(sold) => sold,
    None => Decimal::ONE,
};

impl Kit<'_> {
    /// Makes all checks.
    pub(super) async fn checks(&self) -> Vec<Check> {
        let started = self.clock.now();
        let mut checks = Vec::new();
        let mut add = |check: &'static str, finding: Finding| {
            let (verdict, finding) = match finding {
                Ok(finding) => (Verdict::Ok, finding),
                Err(finding) => (Verdict::Failed, finding),
            };
            checks.push(Check { check, verdict, finding });
        };
        add(CAPABILITIES, self.capable());
        add(FORGED, self.forged().await);
        add(OLD, self.old().await);
        add(ABSENT, self.absent().await);
        let (paid, exact) = self.exact().await;
        add(EXACT, exact);
        add(AGAIN, self.again(paid).await);
        add(CONFLICT, self.conflict(paid).await);
        add(VOID, self.void().await);
        add(VOID_DONE, self.void_done(paid).await);
        add(LISTED, self.listed(paid, started).await);
        if self.is_live() {
            for check in [SLOW, CONVERSION, REFUND] {
                let finding = "not tried with real money".to_owned();
                checks.push(Check { check, verdict: Verdict::Skipped, finding });
            }
            return checks;
        }
        add(SLOW, self.slow_call().await);
        add(CONVERSION, self.conversion().await);
        add(REFUND, self.refund().await);
        checks
    }

    fn capable(&self) -> Finding {
        let found = &self.capabilities;
        if found.idempotency_window_seconds == 0 {
            return Err("idempotency_window_seconds is 0: no key would ever be known".to_owned());
        }
        if found.assets.is_empty() {
            return Err("it names no asset".to_owned());
        }
        let witness = if self.has_witness { "its executions are counted" } else { "only its answers tell" };
        Ok(format!(
            "instance {}, {} assets, {} pairs; {witness}",
            found.instance,
            found.assets.len(),
            found.pairs.len()
        ))
    }

    /// What a stranger signs is not executed.
    async fn forged(&self) -> Finding {
        let id = self.key();
        let body = self.payout(id, self.amount(), &self.destination());
        let seen = self.stranger.send(OperationKind::Payout, id, body, self.clock.now()).await;
        self.turned_away(id, &seen).await
    }

    /// What was signed long ago is not executed.
    async fn old(&self) -> Finding {
        let id = self.key();
        let body = self.payout(id, self.amount(), &self.destination());
        let signed_at = self.clock.now().minus(OLD_AGE);
        let seen = self.client.send(OperationKind::Payout, id, body, signed_at).await;
        self.turned_away(id, &seen).await
    }

    async fn turned_away(&self, id: Uuid, seen: &Seen<Operation>) -> Finding {
        if !matches!(seen, Seen::TurnedAway { .. }) {
            return Err(format!("instead of 401 or 403: {}", seen.told()));
        }
        match self.client.look_up(id, self.clock.now()).await {
            Seen::Absent(_) => {}
            other => return Err(format!("{}, but a look-up gives {}", seen.told(), other.told())),
        }
        self.executed(id, 0).await?;
        Ok(seen.told())
    }

    async fn absent(&self) -> Finding {
        match self.client.look_up(self.key(), self.clock.now()).await {
            Seen::Absent(absence) if absence.instance == self.capabilities.instance => {
                Ok("404 with operation and instance".to_owned())
            }
            Seen::Absent(absence) => Err(format!("it names another instance: {}", absence.instance)),
            other => Err(other.told()),
        }
    }

    /// A payout whose amount has every digit that its asset can have. Its key is that of the checks after it.
    async fn exact(&self) -> (Uuid, Finding) {
        let id = self.key();
        let asked = self.amount();
        (id, self.paid_exactly(id, asked).await)
    }

    async fn paid_exactly(&self, id: Uuid, asked: Decimal) -> Finding {
        self.send(OperationKind::Payout, id, self.payout(id, asked, &self.destination())).await?;
        let found = self.outcome(id).await?;
        if found.status != OperationStatus::Succeeded {
            return Err(format!("the payout ended {:?}: {}", found.status, found.reason.unwrap_or_default()));
        }
        let asset = self.asset();
        let said = (found.asset.as_deref(), found.amount, found.kind);
        if said != (Some(asset.as_str()), Some(asked), Some(OperationKind::Payout)) {
            return Err(format!("asked for a payout of {asked} {asset}, told of {said:?}"));
        }
        if found.destination_reference.as_deref() != Some(self.destination().as_str()) {
            return Err(format!("destination_reference came back as {:?}", found.destination_reference));
        }
        if found.instance != self.capabilities.instance {
            return Err(format!("it is told by another instance: {}", found.instance));
        }
        Ok(format!("{asked} {asset}"))
    }

    async fn again(&self, id: Uuid) -> Finding {
        let before = self.outcome(id).await?;
        let body = self.payout(id, self.amount(), &self.destination());
        let again = self.send(OperationKind::Payout, id, body).await?;
        if again != before {
            return Err(format!("the second answer differs: {again:?} instead of {before:?}"));
        }
        self.executed(id, 1).await?;
        Ok("the same answer".to_owned())
    }

    async fn conflict(&self, id: Uuid) -> Finding {
        let before = self.outcome(id).await?;
        let doubled = Decimal::new(self.amount().coefficient().saturating_mul(2), self.amount().scale());
        let others = [
            self.payout(id, doubled.unwrap_or(Decimal::ONE), &self.destination()),
            self.payout(id, self.amount(), "settle-check-another-destination"),
        ];
        for body in others {
            let seen = self.client.send(OperationKind::Payout, id, body, self.clock.now()).await;
            if !matches!(seen, Seen::Conflict(_)) {
                return Err(format!("instead of 422 `conflict`: {}", seen.told()));
            }
        }
        if self.outcome(id).await? != before {
            return Err("a look-up differs after it".to_owned());
        }
        self.executed(id, 1).await?;
        Ok("422 `conflict`".to_owned())
    }

    async fn void(&self) -> Finding {
        let id = self.key();
        match self.client.void(id, self.clock.now()).await {
            Seen::Answered(voided) if voided.status == OperationStatus::Refused => {}
            Seen::Answered(voided) => return Err(format!("the void says {:?}", voided.status)),
            other => return Err(format!("the void gave {}", other.told())),
        }
        let body = self.payout(id, self.amount(), &self.destination());
        let late = self.client.send(OperationKind::Payout, id, body, self.clock.now()).await;
        if !matches!(&late, Seen::Refused(_)) {
            return Err(format!("the late request, instead of being refused, gave {}", late.told()));
        }
        match self.client.look_up(id, self.clock.now()).await {
            Seen::Answered(found) if found.status == OperationStatus::Refused => {}
            Seen::Answered(found) => return Err(format!("a look-up says {:?}", found.status)),
            other => return Err(format!("a look-up gave {}", other.told())),
        }
        self.executed(id, 0).await?;
        Ok("refused for good".to_owned())
    }

    async fn void_done(&self, id: Uuid) -> Finding {
        let before = self.outcome(id).await?;
        match self.client.void(id, self.clock.now()).await {
            Seen::Answered(voided) if voided == before => Ok(format!("{:?}, as before", before.status)),
            Seen::Answered(voided) => Err(format!("the void says {voided:?} instead of {before:?}")),
            other => Err(format!("the void gave {}", other.told())),
        }
    }

    async fn conversion(&self) -> Finding {
        let Some(pair) = self.capabilities.pairs.iter().find(|pair| asset_decimals(&pair.sell).is_some())
        else {
            return Ok("it converts nothing that Settle knows".to_owned());
        };
        let id = self.key();
        let question = QuoteRequest {
            payin_reference: format!("settle-check-{id}"),
            sell: pair.sell.clone(),
            sell_amount: SOLD,
            buy: pair.buy.clone(),
        };
        let quote = match self.client.quote(&question, self.clock.now()).await {
            Seen::Answered(quote) => quote,
            other => return Err(format!("a quote for {SOLD} {} gave {}", question.sell, other.told())),
        };
        if quote.sell_amount != SOLD || quote.expires_at <= self.clock.now() {
            return Err(format!("the quote sells {} until {}", quote.sell_amount, quote.expires_at));
        }
        let bought = quote.buy_amount;
        let request = ConversionRequest {
            operation_id: id,
            payin_reference: question.payin_reference,
            quote_id: quote.quote_id,
            sell: question.sell,
            sell_amount: SOLD,
            buy: question.buy,
        };
        let found = self.twice(OperationKind::Conversion, id, json(&request)).await?;
        let said = (found.asset, found.amount, found.bought_asset, found.bought_amount);
        if said != (Some(request.sell.clone()), Some(SOLD), Some(request.buy.clone()), Some(bought)) {
            return Err(format!(
                "quoted {SOLD} {} for {bought} {}, told of {said:?}",
                request.sell, request.buy
            ));
        }
        Ok(format!("{SOLD} {} for {bought} {}", request.sell, request.buy))
    }

    async fn refund(&self) -> Finding {
        let id = self.key();
        let (asset, amount) = (self.asset(), self.amount());
        let payin_reference = format!("settle-check-{id}");
        let request = RefundRequest { operation_id: id, asset: asset.clone(), amount, payin_reference };
        let found = self.twice(OperationKind::Refund, id, json(&request)).await?;
        if (found.asset.as_ref(), found.amount) != (Some(&asset), Some(amount)) {
            return Err(format!("asked for {amount} {asset}, told of {:?} {:?}", found.amount, found.asset));
        }
        Ok(format!("{amount} {asset}"))
    }

    /// Sends an operation twice; it must succeed, once.
    async fn twice(&self, kind: OperationKind, id: Uuid, body: Bytes) -> Result<Operation, String> {
        self.send(kind, id, body.clone()).await?;
        let found = self.outcome(id).await?;
        if found.status != OperationStatus::Succeeded {
            return Err(format!("it ended {:?}: {}", found.status, found.reason.unwrap_or_default()));
        }
        if self.send(kind, id, body).await? != found {
            return Err("the second answer differs from the first".to_owned());
        }
        self.executed(id, 1).await?;
        Ok(found)
    }

    /// The list has the payout, as a look-up tells it.
    async fn listed(&self, id: Uuid, since: settle_domain::time::Timestamp) -> Finding {
        let expected = self.outcome(id).await?;
        // The provider's clock may be behind ours.
        let since = since.minus(settle_domain::signature::TOLERANCE);
        let (mut after, mut pages) = (None, 0);
        loop {
            let page = match self.client.changes(since, after.as_deref(), self.clock.now()).await {
                Seen::Answered(page) => page,
                other => return Err(format!("the list gave {}", other.told())),
            };
            pages += 1;
            if let Some(unread) = page.unreadable.first() {
                return Err(format!("the list has what is no operation: {}", unread.fault));
            }
            if let Some(found) = page.operations.into_iter().find(|found| found.operation_id == id) {
                let same = "the same as a look-up tells".to_owned();
                return if found == expected {
                    Ok(same)
                } else {
                    Err(format!("{found:?} instead of {expected:?}"))
                };
            }
            after = page.next;
            if after.is_none() || pages == LIST_PAGES_MAX {
                return Err(format!("{id} is not on {pages} page(s) of what changed since {since}"));
            }
        }
    }

    /// Sends what must be accepted.
    async fn send(&self, kind: OperationKind, id: Uuid, body: Bytes) -> Result<Operation, String> {
        match self.client.send(kind, id, body, self.clock.now()).await {
            Seen::Answered(operation) => Ok(operation),
            other => Err(format!("the {} gave {}", kind.as_str(), other.told())),
        }
    }

    pub(super) fn payout(&self, operation_id: Uuid, amount: Decimal, destination: &str) -> Bytes {
        let destination_reference = destination.to_owned();
        json(&PayoutRequest { operation_id, asset: self.asset(), amount, destination_reference })
    }

    pub(super) fn destination(&self) -> String {
        match &self.terms {
            Terms::Sandbox => "settle-check".to_owned(),
            Terms::Live { destination, .. } => destination.clone(),
        }
    }

    /// The asset that is paid: of those that Settle knows, the one with the most decimals.
    fn asset(&self) -> String {
        let named = match &self.terms {
            Terms::Live { asset: Some(asset), .. } => Some(asset.clone()),
            Terms::Live { asset: None, .. } => self.capabilities.assets.first().cloned(),
            Terms::Sandbox => {
                self.capabilities.assets.iter().max_by_key(|asset| asset_decimals(asset)).cloned()
            }
        };
        named.unwrap_or_default()
    }

    pub(super) fn amount(&self) -> Decimal {
        match &self.terms {
            Terms::Live { amount, .. } => *amount,
            Terms::Sandbox => {
                let decimals = usize::from(asset_decimals(&self.asset()).unwrap_or(0));
                let text = if decimals == 0 { "1" } else { &TELLING_DIGITS[..2 + decimals.min(18)] };
                text.parse().unwrap_or(Decimal::ONE)
            }
        }
    }
}

/// Pages of the list that are read at most.
const LIST_PAGES_MAX: usize = 100;

/// The bytes of a request. Maps and numbers that JSON cannot say do not occur in one.
fn json(request: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(request).unwrap_or_default().into()
}
