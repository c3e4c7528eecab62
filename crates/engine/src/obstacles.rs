//! What keeps a payment from going on until a person mends it, in words for whoever looks at the payment.
//!
//! The reason that the engine notes says only that the provider is not available. Which settings and pauses
//! there are now is looked up when somebody asks.

use std::fmt;
use std::sync::Arc;

use settle_domain::operation::OperationKind;
use settle_domain::payment::PaymentState;
use settle_domain::provider::ProviderName;
use settle_domain::reason::Blocked;
use settle_store::StoreResult;

use crate::advance::Advance;
use crate::case::Case;
use crate::life::Means;
use crate::providers::Station;

/// What a person can mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The settings of this process have no such provider; those of another may.
    Unknown(ProviderName),
    /// An operator has paused the provider.
    Paused(ProviderName),
    /// The provider does not accept our credentials, as this process saw last.
    TurnedAway(ProviderName, u16),
    /// Nothing goes out before the provider has said what became of what people gave up, or it hinted at.
    Unanswered(ProviderName, OperationKind),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Unknown(name) => {
                let section = name.as_str().to_uppercase();
                write!(
                    formatter,
                    "this process does not know provider {name}: the one that runs the engine needs \
                     SETTLE_PROVIDERS__{section}__URL and SETTLE_PROVIDERS__{section}__SECRET"
                )
            }
            Obstacle::Paused(name) => {
                write!(formatter, "provider {name} is paused by an operator: settle provider resume {name}")
            }
            Obstacle::TurnedAway(name, status) => write!(
                formatter,
                "provider {name} turns us away ({status}): compare its secret with SETTLE_PROVIDERS__{}__SECRET",
                name.as_str().to_uppercase()
            ),
            Obstacle::Unanswered(name, kind) => {
                write!(formatter, "provider {name} must first say what became of its earlier {kind}")
            }
        }
    }
}

impl Means {
    /// The provider cannot be asked for anything now: it is paused, does not answer, or turns us away.
    pub(crate) fn unasked(&self, station: Option<&Arc<Station>>, case: Case) -> Advance {
        let now = self.clock.now();
        match station.filter(|station| station.may_send() && station.turns_away().is_some()) {
            Some(station) => Advance::turned_away(case, station.name(), self.waits, now),
            None => Advance::waits(case, Some(Blocked::ProviderUnavailable), self.waits, now),
        }
    }

    /// What stands in the way of a payment that the engine would take on.
    pub async fn obstacle(&self, case: &Case) -> StoreResult<Option<Obstacle>> {
        let payment = &case.payment;
        let is_unsent = match payment.state {
            PaymentState::Received | PaymentState::Quoted | PaymentState::Converted => true,
            PaymentState::Converting
            | PaymentState::PayingOut
            | PaymentState::Refunding(_)
            | PaymentState::NeedsReview(_) => payment.blocked.is_some(),
            PaymentState::Completed { .. } | PaymentState::Failed(_) | PaymentState::Refunded { .. } => {
                return Ok(None);
            }
        };
        let name = match (&payment.provider, self.corridor(case).await?) {
            (Some(name), _) => name.clone(),
            (None, Some(corridor)) => self.quoting_provider(case, &corridor).await?,
            (None, None) => return Ok(None),
        };
        let Some(station) = self.providers.find(&name) else { return Ok(Some(Obstacle::Unknown(name))) };
        // What was sent is looked up all the same.
        if !is_unsent {
            return Ok(None);
        }
        // A process without an engine does not follow the pauses.
        let pauses = self.store.provider_pauses().await?;
        if pauses.iter().any(|pause| pause.provider == name) {
            return Ok(Some(Obstacle::Paused(name)));
        }
        if let Some(status) = station.turns_away() {
            return Ok(Some(Obstacle::TurnedAway(name, status)));
        }
        let held_back_by = self.held_back_by(case).await?;
        Ok(held_back_by
            .map(|given_up| Obstacle::Unanswered(given_up.provider.clone(), given_up.request.kind())))
    }
}
