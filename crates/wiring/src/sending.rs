//! Builds the parts that send: guard, sender, keeper of shards, dispatcher and alerter.

use std::sync::Arc;

use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::KeeperId;
use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
use settle_notify::alerts::{AlertSender, AlertTransport, Alerter, AlerterWake, SEND_TIMEOUT};
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::queue::StoreQueue;
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_notify::guard::{DnsResolver, Guard, GuardPolicy};
use settle_notify::sender::{Sender, Transport};
use settle_outbox::wake::Wake;
use settle_shards::keeper::Keeper;
use settle_shards::leases::StoreLeases;
use settle_store::{Duty, Store};

use crate::WiringError;
use crate::config::Config;
use crate::system::{SystemClock, SystemEntropy};

/// The guard, which judges webhook URLs.
pub fn guard(config: &Config) -> Result<Guard, WiringError> {
    let webhook = &config.webhook;
    let limit = DnsResolver::limit_within(webhook.timeout);
    let resolver = DnsResolver::new(&webhook.nameservers, limit).map_err(WiringError::Resolver)?;
    let policy = GuardPolicy {
        allow_networks: webhook.allow_networks.clone(),
        allow_unresolved: webhook.allow_unresolved,
        allow_http: webhook.allow_http,
    };
    Ok(Guard::new(policy, Arc::new(resolver)))
}

/// The sender, which carries notifications to endpoints through the guard.
pub fn sender(config: &Config, guard: Guard) -> Result<Sender, WiringError> {
    let sender = Sender::new(guard, config.webhook.timeout, &extra_roots(config)?);
    sender.map_err(|fault| WiringError::ExtraRoots(fault.to_string()))
}

/// The dispatcher, which sends notifications.
#[must_use]
pub fn dispatcher(config: &Config, parts: DispatchParts) -> Dispatcher {
    let webhook = &config.webhook;
    let number = |number: std::num::NonZeroU32| usize::try_from(number.get()).unwrap_or(usize::MAX);
    let settings = DispatchSettings {
        timeout: webhook.timeout,
        retry: RetryPolicy {
            retry_first: webhook.retry_first,
            retry_max: webhook.retry_max,
            attempts_max: i32::try_from(webhook.max_attempts.get()).unwrap_or(i32::MAX),
        },
        in_flight: InFlightLimits {
            total: number(webhook.in_flight),
            per_merchant: number(webhook.in_flight_per_merchant),
        },
        shutdown_timeout: config.shutdown.timeout,
    };
    Dispatcher {
        queue: Arc::new(StoreQueue::new(parts.store, Arc::new(SystemEntropy), parts.alerter)),
        transport: parts.transport,
        ring: parts.ring,
        clock: Arc::new(SystemClock),
        wake: parts.wake,
        settings,
    }
}

/// The keeper of the shards that this process holds for a duty.
#[must_use]
pub fn keeper(config: &Config, store: Arc<dyn Store>, duty: Duty) -> Keeper {
    let id = KeeperId::new(SystemClock.now(), &SystemEntropy);
    Keeper::new(Arc::new(StoreLeases(store, duty)), id, config.webhook.lease)
}

/// What a dispatcher shares with the rest of the process.
pub struct DispatchParts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Carries notifications to endpoints.
    pub transport: Arc<dyn Transport>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
    /// Tells the dispatcher that something is due.
    pub wake: Wake,
    /// Wakes the alerter when deliveries have died.
    pub alerter: AlerterWake,
}

/// The alerter, which tells operators of deliveries that died. The caller runs it: `alerter.run(stopped)`.
pub fn alerter(
    config: &Config,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Alerter, WiringError> {
    let transport = match config.alerts.url.clone() {
        Some(url) => {
            let sender = AlertSender::new(url, SEND_TIMEOUT, &extra_roots(config)?);
            let sender = sender.map_err(|fault| WiringError::ExtraRoots(fault.to_string()))?;
            Some(Arc::new(sender) as Arc<dyn AlertTransport>)
        }
        None => None,
    };
    Ok(Alerter::new(store, transport, clock))
}

/// How a certificate begins, on a line of its own.
const CERTIFICATE_BEGINS: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The certificates to trust besides the web's, as PEM. Whoever reads PEM skips what is not a certificate, so
/// a file without any would be taken for none, and be noticed only when the first connection fails.
pub(crate) fn extra_roots(config: &Config) -> Result<Vec<u8>, WiringError> {
    let file = &config.webhook.extra_roots;
    if file.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    let refused = |problem: String| WiringError::ExtraRoots(format!("{}{problem}", file.display()));
    let pem = std::fs::read(file).map_err(|fault| refused(format!(": {fault}")))?;
    let mut lines = pem.split(|byte| matches!(byte, b'\r' | b'\n'));
    if !lines.any(|line| line.starts_with(CERTIFICATE_BEGINS)) {
        let begins = String::from_utf8_lossy(CERTIFICATE_BEGINS);
        return Err(refused(format!(" has no certificate: no line begins with {begins}")));
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use settle_domain::ids::DeliveryId;
    use settle_domain::time::Timestamp;
    use settle_domain::webhook_secret::WebhookSecret;
    use settle_notify::notification::Notification;
    use settle_notify::sender::SendError;

    use super::*;
    use crate::config;

    /// What keeps a merchant from being reached is ours, however short an attempt is.
    #[tokio::test(start_paused = true)]
    async fn a_name_server_that_is_silent_spends_no_attempt() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = silent.local_addr().unwrap().to_string();
        for time in ["1s", "2s", "5s", "10s"] {
            let environment = [("NAMESERVERS", server.as_str()), ("TIMEOUT", time)];
            let environment =
                environment.map(|(name, value)| (format!("SETTLE_WEBHOOK__{name}"), value.to_owned()));
            let config = config::load(None, &environment.to_vec()).unwrap().config;
            let sender = sender(&config, guard(&config).unwrap()).unwrap();
            let secret = WebhookSecret::parse("whsec".to_owned()).unwrap();
            let notification = Notification::test(&secret, DeliveryId::NIL, Timestamp::from_micros(0));
            let attempt = sender.attempt("https://merchant.example/hook", notification).await;
            assert_eq!(attempt, Err(SendError::Resolver), "{time}");
        }
    }
}
