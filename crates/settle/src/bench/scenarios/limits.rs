//! What the machine can do at most, without store and signing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use settle_domain::endpoint::WebhookSecret;
use settle_domain::ids::DeliveryId;
use settle_domain::seams::Clock;
use settle_webhooks::notification::Notification;
use settle_webhooks::sender::Transport;

use super::{CALLERS, Outcome, Scale, per_second};
use crate::bench::arrivals::{Arrivals, receive};
use crate::bench::figures::Figure;
use crate::bench::ground::{Ground, StoreKind};
use crate::bench::load::settlement;
use crate::commands::CommandFault;
use crate::system::{SystemClock, SystemEntropy};
use crate::wiring;

/// The same notification by the same client, without store and signing: what the machine can do at most.
pub(in crate::bench) async fn limits(scale: Scale) -> Result<Outcome, CommandFault> {
    let arrivals = Arrivals::of(scale.notifications);
    let endpoints = receive(arrivals.clone()).await?;
    let ground = Ground::new(StoreKind::Sqlite).await?;
    let context = ground.open().await?;
    let shops = ground.shops(&context, 1, &endpoints, "/hook").await?;
    let guard = wiring::guard(&context.config)?;
    let sender: Arc<dyn Transport> = Arc::new(wiring::sender(&context.config, guard)?);
    let secret = WebhookSecret::parse("benchmark".to_owned());
    let secret = secret.map_err(|_| CommandFault::Refused("no secret".to_owned()))?;
    let now = SystemClock.now();
    let delivery = DeliveryId::new(now, &SystemEntropy);
    let next = Arc::new(AtomicUsize::new(0));
    let started = arrivals.now();
    let senders: Vec<_> = (0..2 * CALLERS)
        .map(|position| {
            let url = format!("http://{}/hook", endpoints[position % endpoints.len()]);
            let signed = Notification::sign(&secret, delivery, Vec::new(), now);
            let body = settlement(&shops[0], 0);
            let (sender, next) = (sender.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= scale.notifications {
                        return;
                    }
                    let body = body.replacen("\"B0\"", &format!("\"B{number}\""), 1).into_bytes();
                    let notification = Notification { headers: signed.headers.clone(), body };
                    sender.attempt(&url, notification).await;
                }
            })
        })
        .collect();
    for task in senders {
        let _ = task.await;
    }
    let rate = per_second(arrivals.counts().0, arrivals.last().saturating_sub(started));
    let figures = vec![Figure::new("limits", "bare POSTs of the same client", rate, "/s")];
    Ok(Outcome { figures, arrivals: Vec::new() })
}
