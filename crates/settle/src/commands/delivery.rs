//! `settle delivery`: look at the deliveries of all merchants, and send dead ones again.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::MerchantId;
use settle_domain::page::PageRequest;
use settle_domain::time::Timestamp;
use settle_store::DeliveryFilter;
use settle_wiring::{Context, User};

use super::CommandError;
use crate::output::{self, Column, Fitted};

mod list;
mod redeliver;
mod show;
mod when;

/// The columns of the table. On a narrow terminal an operator first needs to know which delivery stands how,
/// and why; `settle delivery show` tells the rest.
const COLUMNS: [Column; 9] = [
    Column { head: "DELIVERY_ID", rank: 0, cut_to: None },
    Column { head: "MERCHANT_ID", rank: 5, cut_to: None },
    Column { head: "STATUS", rank: 1, cut_to: None },
    Column { head: "ATTEMPTS", rank: 2, cut_to: None },
    Column { head: "CREATED_AT", rank: 4, cut_to: None },
    Column { head: "NEXT_OR_DELIVERED", rank: 7, cut_to: None },
    Column { head: "RESPONSE", rank: 6, cut_to: None },
    Column { head: "LAST_ERROR", rank: 3, cut_to: Some(16) },
    Column { head: "URL", rank: 8, cut_to: Some(20) },
];

#[derive(Debug, Subcommand)]
pub(super) enum DeliveryCommand {
    /// List deliveries, newest first
    List(list::List),
    /// Show all that is known of one delivery
    Show(show::Show),
    /// Send dead deliveries again: those that are named, or all that a filter finds
    ///
    /// Named ones are requeued together: all of them or, if one is unknown or not dead, none. What a filter
    /// finds is requeued in batches of 1,000. With --pending, deliveries that wait for their next attempt are
    /// tried at once.
    Redeliver(redeliver::Redeliver),
}

impl DeliveryCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::List(_) | Self::Show(_)) { User::Reader } else { User::Command }
    }

    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::List(command) => command.run(&context).await,
            Self::Show(command) => command.run(&context).await,
            Self::Redeliver(command) => command.run(&context).await,
        }
    }
}

/// What narrows the deliveries of all merchants down.
#[derive(Debug, Args)]
struct Narrowing {
    /// Only this merchant's
    #[arg(long, value_name = "MERCHANT_ID")]
    merchant: Option<MerchantId>,
    /// Only those enqueued since then: a time such as 2026-01-31T09:30:00Z, or so long ago, as in 2h or 7d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Only those to a URL that starts with this
    // An empty text is the start of every URL: an unset shell variable must not resend every delivery.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,
}

impl Narrowing {
    /// The filter. An unknown merchant is refused: an empty list would look as if all were well.
    async fn filter(
        self,
        context: &Context,
        status: Option<DeliveryStatus>,
    ) -> Result<DeliveryFilter, CommandError> {
        if let (Some(merchant), Some(page)) = (self.merchant, PageRequest::new(1, 0)) {
            context.store.delivery_page(merchant, None, page).await?;
        }
        Ok(DeliveryFilter { merchant: self.merchant, status, since: self.since, url: self.url })
    }
}

/// A delivery as its merchant sees it, and that merchant's id.
#[derive(Serialize)]
struct Printed {
    merchant_id: MerchantId,
    #[serde(flatten)]
    delivery: Delivery,
}

impl From<(MerchantId, Delivery)> for Printed {
    fn from((merchant_id, delivery): (MerchantId, Delivery)) -> Printed {
        Printed { merchant_id, delivery }
    }
}

/// The deliveries as a table: as wide as the terminal, and whole where there is none.
fn table(deliveries: &[Printed]) -> Fitted {
    let rows: Vec<Vec<String>> = deliveries.iter().map(row).collect();
    output::fitted(&COLUMNS, &rows, output::terminal_width())
}

fn row(Printed { merchant_id, delivery }: &Printed) -> Vec<String> {
    let time = match delivery.status {
        DeliveryStatus::Pending => Some(delivery.next_attempt_at),
        DeliveryStatus::Delivered => delivery.delivered_at,
        DeliveryStatus::Dead => None,
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        delivery.delivery_id.to_string(),
        merchant_id.to_string(),
        delivery.status.to_string(),
        delivery.attempts.to_string(),
        to_the_second(delivery.created_at),
        or_none(time.map(to_the_second)),
        or_none(delivery.response_status.map(|status| status.to_string())),
        or_none(delivery.last_error.clone()),
        delivery.url.clone(),
    ]
}

/// A time that a person reads at a glance, and that `--since` accepts.
fn to_the_second(time: Timestamp) -> String {
    let text = time.to_string();
    let second = text.split('.').next().unwrap_or(&text);
    format!("{second}Z")
}

/// A number of deliveries, in words.
fn counted(number: usize) -> String {
    if number == 1 { "1 delivery".to_owned() } else { format!("{number} deliveries") }
}
