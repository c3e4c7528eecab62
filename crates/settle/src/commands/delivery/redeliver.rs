//! `settle delivery redeliver`: makes dead deliveries pending again, named ones or all that a filter finds.
//! With `--pending` it makes pending ones due at once instead.
//!
//! Named deliveries are one batch: the command requeues all of them or none. For a filter the command
//! 1. counts the deliveries that match, merchant by merchant;
//! 2. walks from merchant to merchant, newest delivery first. This order never changes, so the walk does not
//!    meet a delivery twice that dies again meanwhile;
//! 3. requeues them in batches of 1,000, one transaction each: it locks the merchants, requeues the
//!    deliveries that are still as they were, commits, and wakes the dispatchers.

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgGroup, Args};
use serde::Serialize;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_store::{BATCH_MAX, DeliveryCursor, DeliveryFilter};
use settle_wiring::Context;
use settle_wiring::system::SystemClock;

use super::{Narrowing, Printed, counted, table};
use crate::commands::CommandError;
use crate::commands::progress::Progress;
use crate::output::{self, OutputFormat};

/// Deliveries that a dry run shows; it only counts the others.
const SHOWN_MAX: u32 = 10;
/// Merchants that warnings name; the others are only counted.
const WARNED_MAX: usize = 10;

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which").args(["deliveries", "merchant", "since", "url", "all"]).required(true).multiple(true)
))]
pub(in crate::commands) struct Redeliver {
    /// Which deliveries
    #[arg(value_name = "DELIVERY_ID", conflicts_with_all = ["merchant", "since", "url", "all"])]
    deliveries: Vec<DeliveryId>,
    #[command(flatten)]
    narrowing: Narrowing,
    /// Every dead delivery of every merchant
    #[arg(long, conflicts_with_all = ["merchant", "since", "url"])]
    all: bool,
    /// Pending ones instead of dead ones: they are tried now, and keep their count of attempts
    #[arg(long)]
    pending: bool,
    /// Say what would be requeued, and requeue nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: OutputFormat,
}

/// Which deliveries the command requeues.
#[derive(Debug, Clone, Copy)]
enum Requeue {
    /// Dead ones, which begin anew.
    Dead,
    /// Pending ones, whose next attempt comes at once.
    Pending,
}

impl Requeue {
    fn status(self) -> DeliveryStatus {
        match self {
            Self::Dead => DeliveryStatus::Dead,
            Self::Pending => DeliveryStatus::Pending,
        }
    }
}

/// What the command has done, or would do in a dry run.
#[derive(Serialize)]
struct Requeued {
    /// Deliveries that the operator named or the filter found.
    matched: usize,
    /// Deliveries that the command requeued: none in a dry run.
    requeued: usize,
    dry_run: bool,
    /// Merchants without an endpoint: their deliveries will die again.
    without_endpoint: Vec<MerchantId>,
    /// The first deliveries that a dry run found.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<Vec<Printed>>,
}

/// The deliveries to requeue: the named ones, or a filter and how many it finds of each merchant.
enum Asked {
    Named(Vec<(MerchantId, Delivery)>),
    Matching(DeliveryFilter, Vec<(MerchantId, u64)>),
}

impl Redeliver {
    pub(super) async fn run(self, context: &Context) -> Result<(), CommandError> {
        let from = if self.pending { Requeue::Pending } else { Requeue::Dead };
        let asked = if self.deliveries.is_empty() {
            let filter = self.narrowing.filter(context, Some(from.status())).await?;
            let counts = context.store.delivery_count(&filter).await?;
            Asked::Matching(filter, counts)
        } else {
            Asked::Named(named(context, &self.deliveries, from).await?)
        };
        let without_endpoint = without_endpoint(context, asked.merchants()).await?;
        warn(&without_endpoint)?;
        let mut report = Requeued {
            matched: asked.number(),
            requeued: 0,
            dry_run: self.dry_run,
            without_endpoint,
            deliveries: None,
        };
        if self.dry_run {
            report.deliveries = Some(asked.first(context).await?);
        } else {
            report.requeued = asked.requeue(context, from, SystemClock.now()).await?;
        }
        Ok(output::print(self.format, &report, || report.text())?)
    }
}

impl Requeued {
    fn text(&self) -> String {
        let Some(deliveries) = &self.deliveries else {
            return format!("{} requeued.", counted(self.requeued));
        };
        let mut text = format!("{} would be requeued.", counted(self.matched));
        if !deliveries.is_empty() {
            text = format!("{text}\n\n{}", table(deliveries).text);
        }
        match self.matched.saturating_sub(deliveries.len()) {
            0 => text,
            more => format!("{text}\nand {more} more"),
        }
    }
}

impl Asked {
    fn number(&self) -> usize {
        match self {
            Self::Named(named) => named.len(),
            Self::Matching(_, counts) => {
                usize::try_from(counts.iter().map(|(_, number)| number).sum::<u64>()).unwrap_or(usize::MAX)
            }
        }
    }

    fn merchants(&self) -> BTreeSet<MerchantId> {
        match self {
            Self::Named(named) => named.iter().map(|(merchant, _)| *merchant).collect(),
            Self::Matching(_, counts) => counts.iter().map(|(merchant, _)| *merchant).collect(),
        }
    }

    async fn first(self, context: &Context) -> Result<Vec<Printed>, CommandError> {
        let first = match self {
            Self::Named(named) => named,
            Self::Matching(filter, _) => context.store.delivery_search(&filter, None, SHOWN_MAX).await?,
        };
        Ok(first.into_iter().take(SHOWN_MAX as usize).map(Printed::from).collect())
    }

    /// Returns how many deliveries it requeued.
    async fn requeue(self, context: &Context, from: Requeue, at: Timestamp) -> Result<usize, CommandError> {
        let total = self.number();
        match self {
            Self::Named(named) => {
                let batch: Vec<_> = named.iter().map(key).collect();
                // Of pending ones some may be due already.
                let least = if matches!(from, Requeue::Dead) { total } else { 0 };
                requeue(context, &batch, from, least, at).await
            }
            Self::Matching(filter, counts) => {
                let progress = Progress::over_rows(u64::try_from(total).unwrap_or(0), "requeuing");
                let mut requeued = 0;
                let walked = walk(context, (&filter, from), &counts, at, &progress, &mut requeued).await;
                progress.finish();
                match walked {
                    Err(fault) if requeued > 0 => {
                        let done = counted(requeued);
                        Err(CommandError::Refused(format!("{done} requeued, and then: {fault}")))
                    }
                    walked => walked.map(|()| requeued),
                }
            }
        }
    }
}

fn key((merchant, delivery): &(MerchantId, Delivery)) -> (MerchantId, DeliveryId) {
    (*merchant, delivery.delivery_id)
}

/// The deliveries with these ids. Refused unless each of them exists and has the right status.
async fn named(
    context: &Context,
    ids: &[DeliveryId],
    from: Requeue,
) -> Result<Vec<(MerchantId, Delivery)>, CommandError> {
    let ids: BTreeSet<DeliveryId> = ids.iter().copied().collect();
    let ids: Vec<DeliveryId> = ids.into_iter().collect();
    if ids.len() > BATCH_MAX {
        let text = format!("{} deliveries are named, at most {BATCH_MAX} can be", ids.len());
        return Err(CommandError::Refused(text));
    }
    let found = context.store.delivery_find_many(&ids).await?;
    let statuses: BTreeMap<DeliveryId, DeliveryStatus> =
        found.iter().map(|(_, delivery)| (delivery.delivery_id, delivery.status)).collect();
    let problem = |id: &DeliveryId| match statuses.get(id) {
        None => Some(format!("there is no delivery {id}")),
        Some(status) if *status == from.status() => None,
        Some(status) => Some(match from {
            Requeue::Dead => format!("delivery {id} is {status}; only a dead one can be sent again"),
            Requeue::Pending => {
                format!("delivery {id} is {status}; with --pending only a pending one is meant")
            }
        }),
    };
    let problems: Vec<String> = ids.iter().filter_map(problem).collect();
    if problems.is_empty() {
        return Ok(found);
    }
    Err(CommandError::Refused(format!("nothing was requeued:\n  {}", problems.join("\n  "))))
}

/// The merchants that have no endpoint.
async fn without_endpoint(
    context: &Context,
    merchants: BTreeSet<MerchantId>,
) -> Result<Vec<MerchantId>, CommandError> {
    let mut without = Vec::new();
    for merchant in merchants {
        if context.store.endpoint_find(merchant).await?.is_none() {
            without.push(merchant);
        }
    }
    Ok(without)
}

fn warn(without_endpoint: &[MerchantId]) -> std::io::Result<()> {
    for merchant in without_endpoint.iter().take(WARNED_MAX) {
        output::print_note(&format!(
            "warning: merchant {merchant} has no webhook endpoint any more: its deliveries die again at once"
        ))?;
    }
    match without_endpoint.len().saturating_sub(WARNED_MAX) {
        0 => Ok(()),
        more => output::print_note(&format!("warning: nor have {more} more merchants")),
    }
}

/// Requeues the deliveries that the filter finds, merchant by merchant. A batch may hold deliveries of
/// several merchants.
///
/// Within a merchant each search starts behind the last delivery found, so the walk meets none twice. All
/// deliveries become due at the same time, so the dispatcher sends them in the order of their ids.
async fn walk(
    context: &Context,
    (filter, from): (&DeliveryFilter, Requeue),
    counts: &[(MerchantId, u64)],
    at: Timestamp,
    progress: &Progress,
    requeued: &mut usize,
) -> Result<(), CommandError> {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    for (merchant, _) in counts {
        let filter = DeliveryFilter { merchant: Some(*merchant), ..filter.clone() };
        let mut after = None;
        loop {
            let room = BATCH_MAX - batch.len();
            let limit = u32::try_from(room).unwrap_or(u32::MAX);
            let found = context.store.delivery_search(&filter, after, limit).await?;
            after = found.last().map(DeliveryCursor::at);
            batch.extend(found.iter().map(key));
            if found.len() < room {
                break;
            }
            *requeued += requeue(context, &batch, from, 0, at).await?;
            progress.advance(batch.len());
            batch.clear();
        }
    }
    *requeued += requeue(context, &batch, from, 0, at).await?;
    Ok(())
}

/// Requeues the deliveries of a batch that are still as they were, and returns how many. Refuses if they are
/// fewer than `least`.
async fn requeue(
    context: &Context,
    batch: &[(MerchantId, DeliveryId)],
    from: Requeue,
    least: usize,
    at: Timestamp,
) -> Result<usize, CommandError> {
    if batch.is_empty() {
        return Ok(0);
    }
    let merchants: BTreeSet<MerchantId> = batch.iter().map(|(merchant, _)| *merchant).collect();
    let mut work = context.command_outbox().begin().await?;
    let lock = work.merchant_lock(&merchants.iter().copied().collect::<Vec<_>>()).await?;
    let requeued = match from {
        Requeue::Dead => work.requeue(&lock, batch, at).await?,
        Requeue::Pending => work.hasten(&lock, batch, at).await?,
    };
    if requeued.len() < least {
        let text = "nothing was requeued: some of the deliveries were sent again by others just now";
        return Err(CommandError::Refused(text.to_owned()));
    }
    work.commit().await?;
    Ok(requeued.len())
}
