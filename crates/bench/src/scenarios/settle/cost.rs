//! What a payment costs with more and more payments in the store, as processor time: it stays the same where
//! other work slows everything down.
//!
//! Each size has a store and a service of its own, and each round measures all of them one after the other: a
//! processor that is faster now than a minute ago is faster for all of them.

use super::Settling;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::scenarios::growth::short;
use crate::scenarios::{Measured, Plan};
use crate::scratch::StoreKind;

/// Rounds; the middle one counts.
const ROUNDS: usize = 9;

/// A store that is filled to a size, and what a payment cost in each round.
struct Filled {
    size: usize,
    settling: Settling,
    /// Payments so far.
    settled: usize,
    /// In microseconds.
    costs: Vec<f64>,
}

impl Filled {
    /// The measurement adds payments: halfway through, the store has exactly this size.
    async fn start(plan: &Plan, size: usize) -> Result<Filled, BenchError> {
        let added = ROUNDS * plan.scale.settled_sample;
        let settled = size.saturating_sub(added / 2);
        let settling = Settling::start(plan, settled + added).await?;
        plan.progress.step(&format!("filling a store with {}", payments(size)), settled);
        if settled > 0 {
            settling.settle(plan, 0..settled).await;
        }
        Ok(Filled { size, settling, settled, costs: Vec::new() })
    }

    async fn measure(&mut self, plan: &Plan) -> Result<(), BenchError> {
        let sample = plan.scale.settled_sample;
        // What is behind the last arrival belongs to the payments before.
        self.settling.setup.drain().await?;
        let before = self.settling.used();
        self.settling.settle(plan, self.settled..self.settled + sample).await;
        self.settling.setup.drain().await?;
        self.costs.push(self.settling.used().since(before).total() * 1e6 / number(sample));
        self.settled += sample;
        Ok(())
    }

    /// Payments whose notification has not arrived.
    fn lost(&self) -> usize {
        self.settled.saturating_sub(self.settling.setup.arrivals.counts().0)
    }
}

/// Settles payments until each store has its size, and measures some more there.
pub(super) async fn growth(plan: &Plan) -> Result<Measured, BenchError> {
    let mut stores = Vec::new();
    for size in plan.scale.settled {
        stores.push(Filled::start(plan, *size).await?);
    }
    plan.progress.step("comparing them", 0);
    for _ in 0..ROUNDS {
        for store in &mut stores {
            store.measure(plan).await?;
        }
    }
    Ok(Measured::of(figures(plan.store, &stores)))
}

fn figures(kind: StoreKind, stores: &[Filled]) -> Vec<Figure> {
    let most = if kind == StoreKind::Sqlite { 1.25 } else { 1.15 };
    let figure = |what: String, value: f64, unit| Figure::new("settle", what, value, unit);
    let mut figures: Vec<Figure> = stores
        .iter()
        .map(|store| {
            let cost = middle(store.costs.iter().copied());
            figure(format!("processor with {}", payments(store.size)), cost, "µs")
        })
        .collect();
    for (small, large) in stores.iter().zip(stores.iter().skip(1)) {
        let decades = (number(large.size) / number(small.size)).log10();
        let name = format!("processor with {} → {}", payments(small.size), payments(large.size));
        let ratio = middle(small.costs.iter().zip(&large.costs).map(|(small, large)| large / small));
        figures.push(figure(name, ratio.powf(1.0 / decades), "×").at_most(most));
    }
    let lost: usize = stores.iter().map(Filled::lost).sum();
    figures.push(figure("growth: lost".to_owned(), number(lost), "").at_most(0.0));
    figures
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A number of payments as people say it.
fn payments(number: usize) -> String {
    short(number).replace("rows", "payments")
}
