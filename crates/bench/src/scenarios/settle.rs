//! Settle: payments through their whole life, from the operator's call to the merchant's notification, with
//! the sandbox as their provider on the same machine.

use settle_engine::books;
use settle_wiring::system::SystemClock;

use super::{BATCH, BATCH_CALLERS, Measured, Plan, Setup, per_second};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::{Load, Posted};
use crate::plot::Arrived;
use crate::process::cpu_seconds;
use crate::providers::{Sandbox, agree, silent};
use crate::scratch::{Scratch, StoreKind};

mod cost;
mod pace;

/// The provider whose payments are measured, and one that never answers.
const ANSWERS: &str = "sandbox";
const HANGS: &str = "silent";

/// Measures the whole life at full speed, at a steady rate and beside a provider that hangs, and what a
/// payment costs as the store grows.
pub(crate) async fn settle(plan: &Plan) -> Result<Measured, BenchError> {
    let mut measured = whole_life(plan).await?;
    measured.add(pace::pace(plan).await?);
    measured.add(cost::growth(plan).await?);
    Ok(measured)
}

/// The service, the receiver and the sandbox.
struct Settling {
    /// Fields are dropped in this order: the service must end before its provider.
    setup: Setup,
    sandbox: Sandbox,
}

impl Settling {
    /// With room for this many payments.
    async fn start(plan: &Plan, payments: usize) -> Result<Settling, BenchError> {
        let mut scratch = Scratch::new(plan.store).await?;
        let sandbox = Sandbox::start(&mut scratch, ANSWERS).await?;
        silent(&mut scratch, HANGS).await?;
        let setup = Setup::on(scratch, plan, plan.scale.merchants, payments).await?;
        agree(&setup.context, &setup.shops, ANSWERS).await?;
        Ok(Settling { setup, sandbox })
    }

    /// Posts payments in batches, and waits until they have arrived and are recorded. Returns how many are
    /// missing.
    async fn settle(&self, plan: &Plan, numbers: std::ops::Range<usize>) -> usize {
        let (setup, last) = (&self.setup, numbers.end);
        let load = Load::of(Posted::Payments, setup.shops.clone(), &setup.token, numbers, BATCH);
        let (_kept, address) = setup.address();
        load.post(BATCH_CALLERS, address).await;
        let arrived = setup.arrivals.wait_for(last, plan.scale.patience).await;
        last - arrived
    }

    /// Processor seconds of each process so far.
    fn used(&self) -> Used {
        Used {
            service: self.setup.service.cpu_seconds(),
            sandbox: self.sandbox.cpu_seconds(),
            own: cpu_seconds(std::process::id()),
            database: self.setup.scratch.database_cpu_seconds(),
        }
    }
}

/// Processor seconds of each process.
#[derive(Clone, Copy)]
struct Used {
    service: f64,
    sandbox: f64,
    own: f64,
    database: Option<f64>,
}

impl Used {
    /// What was used since then.
    fn since(self, before: Used) -> Used {
        Used {
            service: self.service - before.service,
            sandbox: self.sandbox - before.sandbox,
            own: self.own - before.own,
            database: self.database.zip(before.database).map(|(now, before)| now - before),
        }
    }

    fn total(self) -> f64 {
        self.service + self.sandbox + self.own + self.database.unwrap_or(0.0)
    }
}

async fn whole_life(plan: &Plan) -> Result<Measured, BenchError> {
    let payments = plan.scale.payments;
    let settling = Settling::start(plan, payments).await?;
    let setup = &settling.setup;
    let (before, started) = (settling.used(), setup.arrivals.now());
    plan.progress.step("whole life", payments);
    let lost = settling.settle(plan, 0..payments).await;
    let wrong = setup.wrong_states(payments).await?;
    let used = settling.used().since(before);
    let rate = per_second(payments - lost, setup.arrivals.last().saturating_sub(started));
    plan.progress.step("checking the books", 0);
    let executed = settling.sandbox.executed().await?;
    let checked = books::check(&*setup.context.store, &SystemClock).await?;
    let (rate_min, micros_max) = match plan.store {
        StoreKind::Sqlite => (1_800.0, 900.0),
        StoreKind::Postgres => (1_300.0, 1_250.0),
    };
    let figure = |what: &str, value: f64, unit| Figure::new("settle", what, value, unit);
    let each = |seconds: f64| seconds * 1e6 / number(payments);
    let mut figures = vec![
        figure("payments", rate, "/s").at_least(rate_min),
        figure("processor of a payment", each(used.total()), "µs").at_most(micros_max),
        figure("processor of a payment, service", each(used.service), "µs"),
        figure("processor of a payment, sandbox", each(used.sandbox), "µs"),
        figure("processor of a payment, receiver and caller", each(used.own), "µs"),
    ];
    figures
        .extend(used.database.map(|seconds| figure("processor of a payment, database", each(seconds), "µs")));
    figures.extend([
        figure("lost", number(lost.max(payments.saturating_sub(executed.payouts))), "").at_most(0.0),
        figure("wrong state", wrong, "").at_most(0.0),
        figure("paid twice", number(executed.twice), "").at_most(0.0),
        figure("books disagree", number(checked.found), "").at_most(0.0),
        figure("resident at most", setup.service.memory_mib().1, "MiB"),
    ]);
    let arrived = Arrived { name: "settle", times: setup.arrivals.times() };
    Ok(Measured { arrived: vec![arrived], ..Measured::of(figures) })
}
