//! `settle delivery list`: deliveries of all merchants, newest first.

use clap::Args;
use serde::Serialize;
use settle_domain::delivery::DeliveryStatus;
use settle_wiring::Context;

use super::{Narrowing, Printed, table};
use crate::commands::CommandError;
use crate::output::{self, OutputFormat};

/// Deliveries that one call lists at most: it holds all of them in memory.
const LIMIT_MAX: u32 = 10_000;

#[derive(Debug, Args)]
pub(in crate::commands) struct List {
    #[command(flatten)]
    narrowing: Narrowing,
    /// Only those that are pending, delivered or dead
    #[arg(long)]
    status: Option<DeliveryStatus>,
    /// How many, at most
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LIMIT_MAX)))]
    limit: u32,
    #[command(flatten)]
    format: OutputFormat,
}

#[derive(Serialize)]
struct Listed {
    deliveries: Vec<Printed>,
}

impl List {
    pub(super) async fn run(self, context: &Context) -> Result<(), CommandError> {
        let filter = self.narrowing.filter(context, self.status).await?;
        // One more than is shown tells whether there are more.
        let mut found = context.store.delivery_search(&filter, None, self.limit + 1).await?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let listed = Listed { deliveries: found.into_iter().map(Printed::from).collect() };
        let table = table(&listed.deliveries);
        output::print(self.format, &listed, || table.text)?;
        if !self.format.json && !table.left_out.is_empty() {
            let left_out = table.left_out.join(", ");
            output::print_note(&format!(
                "This terminal is too narrow for {left_out}: see settle delivery show DELIVERY_ID, or --json."
            ))?;
        }
        if more {
            output::print_note(&format!(
                "There are more than these {limit}: see more with --limit, or less with --merchant, --status, \
                 --since or --url."
            ))?;
        }
        Ok(())
    }
}
