//! The three shops of the demo, and what happens to them.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use settle_accounts::merchants;
use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::delivery::DeliveryStatus;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::pricing::CorridorPricing;
use settle_domain::seams::{Clock, random_bytes};
use settle_domain::webhook_secret::WebhookSecret;
use settle_store::{DeliveryFilter, NewCorridor, Store};
use settle_wiring::Context;
use settle_wiring::system::{SystemClock, SystemEntropy};
use tokio::net::TcpSocket;
use tokio::sync::watch;

use super::operator::Operator;
use super::voice::Voice;
use super::{payments, story};
use crate::commands::CommandError;
use crate::commands::access::new_key;
use crate::receiver::{Arrival, Behaviour, Receiver};

/// How long the flaky shop's endpoint answers well, and how long it then fails.
const MOOD_INTERVAL: Duration = Duration::from_secs(6);
/// How often the demo prints the state of the queue.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);
/// How often the demo looks for deliveries that died, and how many of them it looks through.
const DEATHS_INTERVAL: Duration = Duration::from_millis(500);
const DEATHS_MAX: u32 = 1_000;

/// A merchant of the demo.
pub(super) struct Shop {
    name: &'static str,
    pub(super) merchant_id: MerchantId,
    pub(super) key: String,
}

/// The shops and their endpoints.
pub(super) struct Town {
    /// The good, the flaky and the gone one.
    pub(super) shops: [Shop; 3],
    good: Receiver,
    flaky: Receiver,
    /// Changes how the flaky shop's endpoint answers.
    moody: watch::Sender<Behaviour>,
    /// What must not end before the shops do: the good shop's behaviour, which never changes; and a port that
    /// is bound, so that nobody else takes it, and on which nobody listens.
    kept: (watch::Sender<Behaviour>, TcpSocket),
}

impl Town {
    pub(super) async fn build(context: &Context) -> Result<Town, CommandError> {
        let secret = WebhookSecret::parse(hex::encode(random_bytes::<16>(&SystemEntropy)));
        let secret =
            secret.map_err(|_| CommandError::Refused("the demo's secret cannot be made".to_owned()))?;
        let (well, well_now) = watch::channel(Behaviour::default());
        let (moody, mood_now) = watch::channel(Behaviour::default());
        let good = Receiver::bind(0, &secret, well_now, Arc::new(SystemClock)).await?;
        let flaky = Receiver::bind(0, &secret, mood_now, Arc::new(SystemClock)).await?;
        let nobody = TcpSocket::new_v4()?;
        nobody.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let shops = [
            Shop::open(context, "good shop", good.address()?, &secret).await?,
            Shop::open(context, "flaky shop", flaky.address()?, &secret).await?,
            Shop::open(context, "gone shop", nobody.local_addr()?, &secret).await?,
        ];
        Ok(Town { shops, good, flaky, moody, kept: (well, nobody) })
    }

    /// Lives for ever, and tells of it.
    pub(super) async fn live(
        self,
        store: Arc<dyn Store>,
        operator: &Operator,
        api_url: &str,
        voice: &Arc<Voice>,
    ) {
        let Town { shops, good, flaky, moody, kept: _kept } = self;
        let show = |shop: &'static str| {
            let voice = voice.clone();
            move |arrival: &Arrival| voice.tell(&story::arrived(shop, arrival))
        };
        let payees = shops.each_ref().map(|shop| (shop.name, shop.merchant_id));
        tokio::join!(
            payments::come_for_ever(store.clone(), operator, payees, voice),
            payments::witness(operator, voice, SUMMARY_INTERVAL),
            flap(&moody, voice),
            summarize(&*store, voice),
            mourn(&*store, &shops, api_url, voice),
            good.run(show("good shop"), std::future::pending()),
            flaky.run(show("flaky shop"), std::future::pending()),
        );
    }
}

impl Shop {
    async fn open(
        context: &Context,
        name: &'static str,
        address: SocketAddr,
        secret: &WebhookSecret,
    ) -> Result<Shop, CommandError> {
        let merchant = merchants::create(&*context.store, &SystemClock, &SystemEntropy, name).await?;
        let merchant_id = merchant.merchant_id;
        let endpoint = Endpoint {
            url: format!("http://{address}/webhook"),
            secret: context.ring.seal(merchant_id, secret, &SystemEntropy),
        };
        let mut tx = context.store.begin().await?;
        let lock = tx.merchant_lock(&[merchant_id]).await?;
        tx.endpoint_put(&lock, merchant_id, &endpoint).await?;
        for incoming in ["BRL", "EUR", "JPY", "MXN"] {
            tx.corridor_put(&lock, &corridor(merchant_id, incoming)?).await?;
        }
        tx.commit().await?;
        Ok(Shop { name, merchant_id, key: new_key(context, merchant_id).await? })
    }
}

/// What every shop has agreed on: 1.5 % and 0.25 USDC, converted and paid out by the sandbox.
fn corridor(merchant_id: MerchantId, incoming: &str) -> Result<NewCorridor, CommandError> {
    let wrong = || CommandError::Refused("a corridor of the demo is not right".to_owned());
    let terms = CorridorTerms {
        incoming: incoming.parse().map_err(|_| wrong())?,
        outgoing: "USDC".parse().map_err(|_| wrong())?,
        fee_percentage: "1.5".parse().map_err(|_| wrong())?,
        fee_fixed: "0.25".parse().map_err(|_| wrong())?,
        minimum: None,
        maximum: None,
        provider: "sandbox".parse().map_err(|_| wrong())?,
        alert_after: ALERT_AFTER,
    };
    Ok(NewCorridor {
        merchant_id,
        corridor: Corridor::new(terms).map_err(|_| wrong())?,
        pricing: CorridorPricing::NONE,
        made_by: Actor::Command,
        made_at: SystemClock.now(),
    })
}

/// Makes the flaky shop's endpoint fail for a while, and recover.
async fn flap(moody: &watch::Sender<Behaviour>, voice: &Voice) {
    let mut due = tokio::time::interval(MOOD_INTERVAL);
    due.tick().await;
    loop {
        for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::OK] {
            due.tick().await;
            moody.send_replace(Behaviour { status, delay: Duration::ZERO });
            voice.tell(&story::mood(status));
        }
    }
}

/// Tells the state of the queue.
async fn summarize(store: &dyn Store, voice: &Voice) {
    let mut due = tokio::time::interval(SUMMARY_INTERVAL);
    due.tick().await;
    loop {
        due.tick().await;
        if let Ok(depth) = store.queue_depth().await {
            voice.tell(&story::summary(depth));
        }
    }
}

/// Tells of each delivery that dies, also of one that dies again.
async fn mourn(store: &dyn Store, shops: &[Shop; 3], api_url: &str, voice: &Voice) {
    let filter = DeliveryFilter { status: Some(DeliveryStatus::Dead), ..DeliveryFilter::default() };
    let mut due = tokio::time::interval(DEATHS_INTERVAL);
    let mut known: HashSet<DeliveryId> = HashSet::new();
    loop {
        due.tick().await;
        let Ok(dead) = store.delivery_search(&filter, None, DEATHS_MAX).await else { continue };
        for (merchant, delivery) in dead.iter().rev() {
            let shop = shops.iter().find(|shop| shop.merchant_id == *merchant);
            if let Some(shop) = shop.filter(|_| !known.contains(&delivery.delivery_id)) {
                voice.tell(&story::died(shop.name, &shop.key, api_url, delivery));
            }
        }
        // One that was sent again is not among them, and is told of when it dies again.
        known = dead.iter().map(|(_, delivery)| delivery.delivery_id).collect();
    }
}
