//! Latency: how long a notification takes from the call to its arrival, at steady rates.

use super::{Measured, Plan, Setup, micros_to_ms};
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::{Posted, at_rate};
use crate::plot::Latencies;

/// Measures the latency at two steady rates.
pub(crate) async fn latency(plan: &Plan) -> Result<Measured, BenchError> {
    let (mut figures, mut latencies) = (Vec::new(), Vec::new());
    for (rate, p50_max, p99_max) in [(50, Some(2.0), 4.0), (500, None, 10.0)] {
        let count = usize::try_from(u64::from(rate) * plan.scale.steady.as_secs().max(1)).unwrap_or(0);
        // The first second warms up connections and plans.
        let warm_up = usize::try_from(rate).unwrap_or(0);
        let setup = Setup::start(plan, plan.scale.merchants, warm_up + count).await?;
        let (shops, token, operator) = (&setup.shops, setup.token.as_str(), setup.service.operator);
        plan.progress.step(&format!("{rate}/s"), warm_up + count);
        let warming =
            at_rate(Posted::Settlements, shops, token, operator, &setup.arrivals, 0..warm_up, rate).await;
        let took = at_rate(
            Posted::Settlements,
            shops,
            token,
            operator,
            &setup.arrivals,
            warm_up..warm_up + count,
            rate,
        )
        .await;
        let lost = warming.iter().chain(&took).filter(|call| call.took.is_none()).count();
        let calls: Vec<(u64, u64)> = took.iter().filter_map(|call| Some((call.at, call.took?))).collect();
        let took: Durations = calls.iter().map(|(_, took)| *took).collect();
        let at = |part| micros_to_ms(took.percentile(part));
        let figure = |what: &str, value| Figure::new("latency", format!("{rate}/s: {what}"), value, "ms");
        let p50 = figure("p50", at(0.5));
        figures.push(p50_max.map_or(p50.clone(), |most| p50.at_most(most)));
        figures.push(figure("p99", at(0.99)).at_most(p99_max));
        figures.push(figure("p99.9", at(0.999)));
        figures.push(Figure::new("latency", format!("{rate}/s: lost"), number(lost), "").at_most(0.0));
        figures.extend(setup.used("latency", &format!("{rate}/s: ")));
        latencies.push(Latencies { name: format!("{rate}/s"), calls });
    }
    Ok(Measured { latencies, ..Measured::of(figures) })
}
