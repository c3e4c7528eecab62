//! What a payment costs with more and more payments in the store, as processor time: it stays the same where
//! other work slows everything down.

use super::Settling;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::scenarios::growth::short;
use crate::scenarios::{Measured, Plan};
use crate::scratch::StoreKind;

/// Rounds at each size; the cheapest counts.
const ROUNDS: usize = 5;

/// Payments that fill the store at once.
const FILL_PART: usize = 50_000;

/// Settles payments until the store has each size, and measures some more there.
pub(super) async fn growth(plan: &Plan) -> Result<Measured, BenchError> {
    let (sizes, sample) = (plan.scale.settled, plan.scale.settled_sample);
    // A sample may be more than lies between two sizes.
    let room = sizes.iter().copied().fold(0, usize::max) + sizes.len() * ROUNDS * sample;
    let settling = Settling::start(plan, room).await?;
    let mut settled = 0;
    // Of all payments so far: what is late is not counted twice.
    let mut lost = 0;
    let mut costs = Vec::new();
    for size in sizes {
        // The measurement adds payments: halfway through, the store has exactly this size.
        let fill = size.saturating_sub(ROUNDS * sample / 2).max(settled);
        plan.progress.step(&format!("filling the store with {}", payments(*size)), fill);
        // In parts: a queue as long as the store would not be what is measured with few payments.
        while settled < fill {
            let part = settled..fill.min(settled + FILL_PART);
            settled = part.end;
            lost = settling.settle(plan, part).await;
        }
        let mut cheapest = f64::INFINITY;
        for _ in 0..ROUNDS {
            // What is behind the last arrival belongs to the payments before. Whether it is done is asked of
            // the totals: to count the rows costs more the more there are, and would be taken for the
            // payments'.
            settling.setup.none_pending().await?;
            // PostgreSQL cleans a table when a fifth of it has changed: what the fill has left behind would
            // fall on a few payments here, and none of it elsewhere. For each payment it is the same at
            // every size, and the whole life pays for it.
            if let Some(postgres) = settling.setup.scratch.postgres() {
                postgres.clean().await;
            }
            let before = settling.used();
            lost = settling.settle(plan, settled..settled + sample).await;
            settled += sample;
            settling.setup.none_pending().await?;
            cheapest = cheapest.min(settling.used().since(before).total() * 1e6 / number(sample));
        }
        costs.push((*size, cheapest));
    }
    let wrong = settling.setup.wrong_states(settled).await?;
    Ok(Measured::of(figures(plan.store, &costs, lost, wrong)))
}

fn figures(store: StoreKind, costs: &[(usize, f64)], lost: usize, wrong: f64) -> Vec<Figure> {
    let most = if store == StoreKind::Sqlite { 1.25 } else { 1.15 };
    let figure = |what: String, value: f64, unit| Figure::new("settle", what, value, unit);
    let mut figures: Vec<Figure> = costs
        .iter()
        .map(|(size, cost)| figure(format!("processor with {}", payments(*size)), *cost, "µs"))
        .collect();
    let grown = |(small, before): &(usize, f64), (large, after): &(usize, f64)| {
        let decades = (number(*large) / number(*small)).log10();
        let name = format!("processor with {} → {}", payments(*small), payments(*large));
        figure(name, (after / before).powf(1.0 / decades), "×")
    };
    // A decade alone is as uncertain as both of its ends: the target is for all of them.
    if costs.len() > 2 {
        figures.extend(costs.iter().zip(costs.iter().skip(1)).map(|(small, large)| grown(small, large)));
    }
    if let [first, .., last] = costs {
        let all = grown(first, last);
        figures.push(Figure { name: format!("{}, a decade", all.name), ..all }.at_most(most));
    }
    figures.push(figure("growth: lost".to_owned(), number(lost), "").at_most(0.0));
    figures.push(figure("growth: wrong state".to_owned(), wrong, "").at_most(0.0));
    figures
}

/// A number of payments as people say it.
fn payments(number: usize) -> String {
    short(number).replace("rows", "payments")
}
