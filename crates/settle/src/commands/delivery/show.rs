//! `settle delivery show`: all that is known of one delivery, and what can be done about it.
//!
//! Its merchant is not known, so the look-up goes from merchant to merchant, as that of `redeliver` does.
//! What it costs grows with the merchants, one key each, and not with their deliveries.

use clap::Args;
use serde::Serialize;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::DeliveryId;
use settle_wiring::Context;

use super::{Printed, to_the_second};
use crate::commands::CommandError;
use crate::output::{self, OutputFormat};

#[derive(Debug, Args)]
pub(in crate::commands) struct Show {
    /// Which delivery
    delivery_id: DeliveryId,
    #[command(flatten)]
    format: OutputFormat,
}

/// A delivery and what decides its future.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    printed: Printed,
    /// Attempts before it is dead, as the settings say here.
    attempts_max: u32,
    /// The merchant's endpoint now; the delivery goes to the one that it was enqueued for.
    endpoint_url: Option<String>,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<(), CommandError> {
        let found = context.store.delivery_find_many(&[self.delivery_id]).await?.pop();
        let Some((merchant_id, delivery)) = found else {
            return Err(CommandError::Refused(format!("there is no delivery {}", self.delivery_id)));
        };
        let endpoint = context.store.endpoint_find(merchant_id).await?;
        let shown = Shown {
            printed: Printed { merchant_id, delivery },
            attempts_max: context.config.webhook.max_attempts.get(),
            endpoint_url: endpoint.map(|endpoint| endpoint.url),
        };
        Ok(output::print(self.format, &shown, || shown.text())?)
    }
}

impl Shown {
    fn text(&self) -> String {
        let Printed { merchant_id, delivery } = &self.printed;
        let none = || "none".to_owned();
        let rows = [
            ("Delivery", delivery.delivery_id.to_string()),
            ("Merchant", merchant_id.to_string()),
            ("Settlement", format!("{}, {}", delivery.settlement_id, delivery.event_type)),
            ("Status", delivery.status.to_string()),
            ("Attempts", format!("{} of {}", delivery.attempts, self.attempts_max)),
            ("Enqueued", to_the_second(delivery.created_at)),
            when(delivery),
            ("Last response", delivery.response_status.map_or_else(none, |status| status.to_string())),
            ("Last error", delivery.last_error.clone().unwrap_or_else(none)),
            ("Sent to", delivery.url.clone()),
            ("Endpoint now", self.endpoint()),
            ("What to do", self.remedy()),
        ];
        rows.map(|(name, value)| format!("{name:<13}  {}", output::harmless_line(&value))).join("\n")
    }

    fn endpoint(&self) -> String {
        match &self.endpoint_url {
            None => "none: the merchant has cleared it".to_owned(),
            Some(url) if *url == self.printed.delivery.url => "the same".to_owned(),
            Some(url) => format!("{url}, for deliveries enqueued since it was set"),
        }
    }

    fn remedy(&self) -> String {
        let id = self.printed.delivery.delivery_id;
        match (self.printed.delivery.status, &self.endpoint_url) {
            (DeliveryStatus::Delivered, _) => "nothing: it has arrived".to_owned(),
            (DeliveryStatus::Dead, Some(_)) => format!("settle delivery redeliver {id} sends it again"),
            (DeliveryStatus::Pending, Some(_)) => {
                format!("nothing: it is tried again; settle delivery redeliver --pending {id} tries it now")
            }
            (DeliveryStatus::Dead, None) => {
                format!("the merchant sets an endpoint, then settle delivery redeliver {id} sends it again")
            }
            (DeliveryStatus::Pending, None) => "nothing: it ends soon, as its endpoint is gone".to_owned(),
        }
    }
}

/// The time that matters most in its status.
fn when(delivery: &Delivery) -> (&'static str, String) {
    match (delivery.status, delivery.delivered_at) {
        (DeliveryStatus::Delivered, Some(at)) => ("Delivered", to_the_second(at)),
        (DeliveryStatus::Pending, _) => ("Next attempt", to_the_second(delivery.next_attempt_at)),
        _ => ("Last attempt", format!("was due {}", to_the_second(delivery.next_attempt_at))),
    }
}
