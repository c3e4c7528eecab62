//! Takes one case as far as it goes: decides what is to be done, calls the provider, records what came of it,
//! and again, until the payment waits or is done.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::corridor::CorridorVersion;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::operation::{Backoff, Report, Seen as Verdict, Window};
use settle_domain::payment::QuoteRefusal;
use settle_domain::provider::ProviderName;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_provider::seen::Seen;
use settle_provider::wire::QuoteRequest;
use settle_store::{CorridorKey, ShardLease, Store, StoreError, StoreResult, StoredCorridor};
use tokio::time::sleep;

use crate::advance::{Advance, Follow, Stuck, Told};
use crate::case::Case;
use crate::providers::{Providers, Station};
use crate::words::{self, Quoted};
use crate::writer::{Writer, Written};

mod corridors;
mod errands;
mod last_look;

pub use corridors::Corridors;
pub(crate) use errands::provider;
pub use errands::{Errands, errands};

/// How often an advance is made anew because somebody else has changed the payment meanwhile.
const STALE_MAX: u32 = 8;
/// The waits between tries to write while the database does not answer.
const WRITE_WAIT_FIRST: Duration = Duration::from_millis(100);
const WRITE_WAIT_MAX: Duration = Duration::from_secs(5);

/// What a life works with.
#[derive(Clone)]
pub struct Means {
    /// The database, for reading.
    pub store: Arc<dyn Store>,
    /// Who writes.
    pub writer: Writer,
    /// The providers.
    pub providers: Providers,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// How long to wait between tries.
    pub waits: Backoff,
    /// The corridors that were read lately.
    pub corridors: Corridors,
    /// How long an operator's act waits for one answer of a provider: shorter than the operator waits for its
    /// own.
    pub answer_wait: Duration,
}

/// The corridor that a payment goes through.
pub(crate) fn corridor_key(case: &Case) -> CorridorKey {
    let order = &case.payment.order;
    CorridorKey { merchant_id: order.merchant_id, incoming: order.incoming, outgoing: order.outgoing }
}

/// Why a life ended before its payment waited or was done. The payment stays due: whoever claims it next goes
/// on.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer failed.
    #[error(transparent)]
    Written(#[from] Arc<StoreError>),
    /// A fault of ours.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The shard has changed hands.
    #[error("the shard has changed hands")]
    Lost,
}

/// An advance that was written.
struct Recorded {
    case: Case,
    follow: Follow,
    /// Not later than when the lease was checked.
    checked_at: Timestamp,
}

/// Takes a case as far as it goes.
pub async fn live(means: &Means, mut case: Case, lease: ShardLease) -> Result<(), LifeError> {
    let mut follow_up = None;
    loop {
        let advance = match follow_up.take() {
            Some((Follow::Send(place), checked_at)) => means.send(case, place, checked_at).await?,
            Some((Follow::Void(place), _)) => means.void(case, place).await?,
            Some((Follow::Again | Follow::Wait, _)) | None => {
                let (merchant, payment) = (case.merchant_id(), case.payment.payment_id);
                match means.go(case).await {
                    Err(LifeError::Stuck(stuck)) => means.give_up(merchant, payment, stuck).await?,
                    done => done?,
                }
            }
        };
        let Some(advance) = advance else { return Ok(()) };
        let Some(recorded) = means.record(advance, lease).await? else { return Ok(()) };
        case = recorded.case;
        match recorded.follow {
            follow @ (Follow::Send(_) | Follow::Void(_) | Follow::Again) => {
                follow_up = Some((follow, recorded.checked_at));
            }
            Follow::Wait => return Ok(()),
        }
    }
}

impl Means {
    /// Does what is to be done with a case that nobody has in hand. `None` when there is nothing.
    async fn go(&self, case: Case) -> Result<Option<Advance>, LifeError> {
        if let Some(advance) = self.last_look(&case).await? {
            return Ok(Some(advance));
        }
        let now = self.clock.now();
        let advance = match errands(&case) {
            Errands::Quote => self.quote(case).await?,
            Errands::PayOut => {
                let case = self.bound(case).await?;
                match self.instance(&case).await {
                    Some(instance) => Advance::payout(case, Some(instance), now)?,
                    None => self.unasked(self.station(&case), case),
                }
            }
            Errands::Lost(place) => {
                let told = self.corridor(&case).await?;
                let told = self.told(&case, place, told.as_deref());
                Advance::seen(case, place, Verdict::Unclear, None, &told, now)?
            }
            Errands::Resend(place) => match self.instance(&case).await {
                Some(instance) => Advance::send(case, place, instance, now),
                None => self.unasked(self.station(&case), case),
            },
            Errands::LookUp(place) => return self.look_up(case, place).await.map(Some),
            Errands::Void(place) => return self.void(case, place).await,
            Errands::CatchUp(place) => {
                let corridor = self.corridor(&case).await?;
                let told = self.told(&case, place, corridor.as_deref());
                Advance::caught_up(case, place, &told, now)?
            }
            Errands::Nothing => Advance::at_rest(case, now),
        };
        Ok(Some(advance))
    }

    /// The case, bound to its corridor's present provider if it is bound to none.
    async fn bound(&self, mut case: Case) -> Result<Case, LifeError> {
        if case.payment.provider.is_none()
            && let Some(corridor) = self.corridor(&case).await?
        {
            case.payment.provider = Some(self.present_provider(&case, &corridor).await?);
        }
        Ok(case)
    }

    /// The memory of the case's provider, if something may be sent to it.
    async fn instance(&self, case: &Case) -> Option<String> {
        let station = self.station(case).filter(|station| station.may_send())?;
        station.capabilities().await.map(|known| known.instance.clone())
    }

    async fn quote(&self, case: Case) -> Result<Advance, LifeError> {
        let now = self.clock.now();
        let Some(corridor) = self.corridor(&case).await? else {
            return Ok(Advance::unquoted(case, QuoteRefusal::CurrencyNotEnabled, now)?);
        };
        let provider = self.quoting_provider(&case, &corridor).await?;
        let Some(station) = self.providers.find(&provider) else {
            tracing::warn!(%provider, "a corridor names a provider that the settings do not have");
            return Ok(self.unasked(None, case));
        };
        // Nothing is sent to a memory that we could not tell from another one later.
        if !station.may_send() || station.capabilities().await.is_none() {
            return Ok(self.unasked(Some(station), case));
        }
        if corridor.versioned.corridor.skips_conversion() {
            return Ok(Advance::unconverted(case, (&corridor, &provider), station.instance(), now)?);
        }
        let order = &case.payment.order;
        let request = QuoteRequest {
            payin_reference: order.payin.reference().to_owned(),
            sell: order.incoming.code().to_owned(),
            sell_amount: order.incoming_amount,
            buy: order.outgoing.code().to_owned(),
        };
        let seen = station.quote(&request).await;
        let now = self.clock.now();
        match words::of_quote(seen) {
            Quoted::Offer(offer) => {
                Ok(Advance::quoted(case, (&corridor, &provider), offer, station.instance(), self.waits, now)?)
            }
            Quoted::Refused(refusal) => Ok(Advance::unquoted(case, refusal, now)?),
            Quoted::Blocked(blocked) => Ok(Advance::waits(case, Some(blocked), self.waits, now)),
            Quoted::TurnedAway => Ok(Advance::turned_away(case, station.name(), self.waits, now)),
        }
    }

    /// Sends an operation that the last commit has marked as being sent.
    async fn send(
        &self,
        case: Case,
        place: usize,
        checked_at: Timestamp,
    ) -> Result<Option<Advance>, LifeError> {
        let operation = &case.operations[place].operation;
        let (kind, id) = (operation.request.kind(), operation.operation_id);
        let verdict = match self.station(&case) {
            Some(station) => {
                let seen = station.send(kind, id, operation.request.body(id).into(), checked_at).await;
                words::of_send(seen, &operation.request, case.promise_of(place).as_ref())
            }
            None => (Verdict::NotSent, None),
        };
        self.judge(case, place, verdict).await.map(Some)
    }

    async fn look_up(&self, case: Case, place: usize) -> Result<Advance, LifeError> {
        let tracked = &case.operations[place];
        let (operation, instance) = (&tracked.operation, tracked.instance.as_deref());
        let (word, is_answered) = match self.providers.find(&operation.provider) {
            Some(station) => {
                station.capabilities().await;
                let seen = station.look_up(operation.operation_id).await;
                let is_answered = matches!(seen, Seen::Answered(_) | Seen::Absent(_));
                let promise = case.promise_of(place);
                (words::of_look_up(seen, &operation.request, promise.as_ref(), instance), is_answered)
            }
            None => ((Verdict::LookupFailed, None), false),
        };
        let corridor = self.corridor(&case).await?;
        let mut told = self.told(&case, place, corridor.as_deref());
        // Another memory may never hear of it, and a provider that is not asked next may be gone.
        let may_tell = !is_answered && self.is_next(&case, place).await?;
        told.awaits_hint &= may_tell || self.is_recent(&case);
        let advance = self.judged(case.clone(), place, word, &told)?;
        if matches!(advance.follow, Follow::Send(_)) {
            // What goes out again may go out in the place of what was given up, as at the first time.
            return Ok(self.look_before_send(&case).await?.unwrap_or(advance));
        }
        Ok(advance)
    }

    async fn void(&self, case: Case, place: usize) -> Result<Option<Advance>, LifeError> {
        let verdict = self.voided(&case, place).await;
        self.judge(case, place, verdict).await.map(Some)
    }

    /// Asks the provider never to begin an operation. Another memory than the one that it was sent to is not
    /// asked: its answer would prove nothing, and from then on it would refuse for ever what the first may
    /// have done.
    pub(crate) async fn voided(&self, case: &Case, place: usize) -> (Verdict, Option<Report>) {
        let tracked = &case.operations[place];
        let (operation, instance) = (&tracked.operation, tracked.instance.as_deref());
        let Some(station) = self.providers.find(&operation.provider) else {
            return (Verdict::VoidFailed, None);
        };
        if let Some(instance) = instance
            && !station.may_have(instance).await
        {
            return (Verdict::VoidFailed, None);
        }
        let seen = station.void(operation.operation_id).await;
        words::of_void(seen, &operation.request, case.promise_of(place).as_ref(), instance)
    }

    async fn judge(
        &self,
        case: Case,
        place: usize,
        word: (Verdict, Option<Report>),
    ) -> Result<Advance, LifeError> {
        let corridor = self.corridor(&case).await?;
        let told = self.told(&case, place, corridor.as_deref());
        Ok(self.judged(case, place, word, &told)?)
    }

    /// What was learnt of an operation, by who no longer serves its payment. Of what the payment waits for it
    /// hears from whoever does: they look at it anew. Of all else it hears now: nobody would ask again.
    async fn left_behind(
        &self,
        case: Case,
        place: usize,
        (verdict, report): (Verdict, Option<Report>),
    ) -> Result<Advance, LifeError> {
        let corridor = self.corridor(&case).await?;
        let told = Told { may_send: false, ..self.told(&case, place, corridor.as_deref()) };
        let now = self.clock.now();
        if case.awaited() == Some(place) {
            return Ok(Advance::evidence(case, place, verdict, report.as_ref(), &told, now));
        }
        let mut advance = self.judged(case, place, (verdict, report), &told)?;
        advance.case.due_at = Some(now);
        Ok(advance)
    }

    /// What follows from what was seen of an operation. If nothing can, by our own fault, a person must look.
    pub(crate) fn judged(
        &self,
        case: Case,
        place: usize,
        (verdict, report): (Verdict, Option<Report>),
        told: &Told<'_>,
    ) -> Result<Advance, Stuck> {
        let now = self.clock.now();
        let mut advance = match Advance::seen(case.clone(), place, verdict, report.as_ref(), told, now) {
            Ok(advance) => advance,
            Err(stuck) => {
                let (merchant, payment) = (case.merchant_id(), case.payment.payment_id);
                tracing::error!(%stuck, %merchant, %payment, "a payment cannot go on: a person must look");
                let learnt = Some((place, verdict, report.as_ref(), told));
                Advance::failed(case, learnt, self.waits, now)?
            }
        };
        advance.evidence = Some((place, verdict, report));
        Ok(advance)
    }

    /// A payment that cannot go on by our own fault waits for a person, and everybody else goes on.
    async fn give_up(
        &self,
        merchant: MerchantId,
        payment: PaymentId,
        stuck: Stuck,
    ) -> Result<Option<Advance>, LifeError> {
        tracing::error!(%stuck, %merchant, %payment, "a payment cannot go on: a person must look");
        let Some(case) = self.read(merchant, payment).await? else { return Ok(None) };
        Ok(Some(Advance::failed(case, None, self.waits, self.clock.now())?))
    }

    /// Writes an advance. If somebody else has changed the payment meanwhile, what was learnt of the
    /// operation is applied to the payment as it is now. `None` when the life is over.
    async fn record(&self, advance: Advance, lease: ShardLease) -> Result<Option<Recorded>, LifeError> {
        let mut advance = Arc::new(advance);
        let mut fence = Some(lease);
        let (mut stale, mut wait, mut is_refused) = (0, WRITE_WAIT_FIRST, false);
        loop {
            let evidence = advance.evidence.clone();
            let (merchant, payment) = (advance.case.merchant_id(), advance.case.payment.payment_id);
            let operation =
                evidence.as_ref().map(|(place, ..)| advance.case.operations[*place].operation.operation_id);
            let checked_at = self.clock.now();
            match self.writer.write(Arc::clone(&advance), fence).await {
                Ok(Written::Done) => {
                    report(&advance);
                    let (case, follow) = advance.committed();
                    return Ok(fence.map(|_| Recorded { case, follow, checked_at }));
                }
                Ok(Written::Lost) => fence = None,
                Ok(Written::Stale) => stale += 1,
                Err(fault) if matches!(*fault, StoreError::Unavailable(_)) => {
                    let cause = std::error::Error::source(&*fault).map(ToString::to_string);
                    tracing::warn!(%fault, cause, ?wait, "a step of a payment was not written");
                    if last_look::is_outdated(&advance) {
                        return Ok(None);
                    }
                    sleep(wait).await;
                    wait = (2 * wait).min(WRITE_WAIT_MAX);
                    continue;
                }
                // Not even the step that calls a person is written: the next look tries again.
                Err(fault) if is_refused => return Err(fault.into()),
                Err(fault) => {
                    // Refused although it was tried alone: a person must look, and everybody else goes on.
                    tracing::error!(%fault, %merchant, %payment, "the database refuses a step of a payment");
                    is_refused = true;
                    let case = self.read(merchant, payment).await?.ok_or(fault)?;
                    advance = Arc::new(self.failed(case, operation, evidence).await?);
                    continue;
                }
            }
            let Some(((_, verdict, seen), operation)) = evidence.zip(operation) else {
                return Ok(None);
            };
            if stale > STALE_MAX {
                return Err(LifeError::Lost);
            }
            let Some(case) = self.read(merchant, payment).await? else { return Ok(None) };
            let Some(place) = case.position(operation) else { return Ok(None) };
            advance = Arc::new(if fence.is_some() {
                self.judge(case, place, (verdict, seen)).await?
            } else {
                self.left_behind(case, place, (verdict, seen)).await?
            });
        }
    }

    /// A step that calls a person, with what was learnt of an operation.
    async fn failed(
        &self,
        case: Case,
        operation: Option<OperationId>,
        evidence: Option<(usize, Verdict, Option<Report>)>,
    ) -> Result<Advance, LifeError> {
        let corridor = self.corridor(&case).await?;
        let place = operation.and_then(|operation| case.position(operation));
        let told = place.map(|place| self.told(&case, place, corridor.as_deref()));
        let learnt = match (place, &evidence, &told) {
            (Some(place), Some((_, verdict, report)), Some(told)) => {
                Some((place, *verdict, report.as_ref(), told))
            }
            _ => None,
        };
        Ok(Advance::failed(case, learnt, self.waits, self.clock.now())?)
    }

    /// A payment as it is now.
    pub async fn read(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<Option<Case>> {
        let Some(row) = self.store.payment_find(merchant, payment).await? else { return Ok(None) };
        let operations = self.store.operation_of_many(&[(merchant, payment)], self.clock.now()).await?;
        let pricing = self.store.payment_pricing_of_many(&[(merchant, payment)]).await?.pop();
        Case::read(row, pricing.as_ref().map(|(_, pricing)| pricing.as_str()), operations).map(Some)
    }

    /// The corridor that the payment keeps, or the newest one before its first quote.
    pub(crate) async fn corridor(&self, case: &Case) -> StoreResult<Option<Arc<StoredCorridor>>> {
        let key = corridor_key(case);
        let newest = self.corridors.newest(&*self.store, key).await?;
        let kept: Option<CorridorVersion> = case.payment.corridor_version;
        match (kept, newest) {
            (Some(version), newest)
                if newest.as_ref().is_none_or(|known| known.versioned.version != version) =>
            {
                Ok(self.store.corridor_version(key, version).await?.map(Arc::new))
            }
            (_, newest) => Ok(newest),
        }
    }

    /// The provider that is asked for a quote: the one that the payment is bound to since it began, or began
    /// again; if to none, the corridor's present one, whichever version the payment keeps.
    pub(crate) async fn quoting_provider(
        &self,
        case: &Case,
        corridor: &StoredCorridor,
    ) -> StoreResult<ProviderName> {
        match &case.payment.provider {
            Some(provider) => Ok(provider.clone()),
            None => self.present_provider(case, corridor).await,
        }
    }

    /// The provider of the newest version of the payment's corridor.
    pub(crate) async fn present_provider(
        &self,
        case: &Case,
        kept: &StoredCorridor,
    ) -> StoreResult<ProviderName> {
        let of = |corridor: &StoredCorridor| corridor.versioned.corridor.terms().provider.clone();
        if case.payment.corridor_version.is_none() {
            return Ok(of(kept));
        }
        let newest = self.corridors.newest(&*self.store, corridor_key(case)).await?;
        Ok(of(newest.as_deref().unwrap_or(kept)))
    }

    fn station(&self, case: &Case) -> Option<&Arc<Station>> {
        self.providers.find(case.payment.provider.as_ref()?)
    }

    pub(crate) fn told<'a>(
        &self,
        case: &Case,
        place: usize,
        corridor: Option<&'a StoredCorridor>,
    ) -> Told<'a> {
        let tracked = &case.operations[place];
        let station = self.providers.find(&tracked.operation.provider);
        Told {
            window: station.map_or(Window::Over, |station| station.window(tracked.age())),
            corridor,
            instance: station.and_then(|known| known.instance()),
            // As long as nobody knows what it promises to remember, nothing is sent to it a second time.
            may_send: station.is_some_and(|station| station.may_send() && station.instance().is_some()),
            awaits_hint: station.is_some() && self.holds_back_for(case, place),
            waits: self.waits,
        }
    }
}

/// Counts and says what came of an advance.
fn report(advance: &Advance) {
    if let Some((kind, class)) = advance.class {
        let labels = [("kind", kind.as_str()), ("class", class.as_str())];
        ::metrics::counter!("settle_operations_total", &labels).increment(1);
    }
    advance.report();
    let (merchant, payment) = (advance.case.merchant_id(), advance.case.payment.payment_id);
    if advance.case.payment.state.is_final() {
        tracing::debug!(%merchant, %payment, state = %advance.case.payment.state.name(), "a payment is done");
    }
}
