//! The service under test: the real router behind a real listener, on a scratch store.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use settle_api::server::{self, ServerLimits};
use settle_api::{ApiState, Limits, Messages, Routes};
use settle_domain::credential::{Credential, CredentialKind, Holder};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::seams::{Clock, ManualClock, SeededEntropy};
use settle_domain::vault::KeyRing;
use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{Guard, GuardPolicy, Resolve};
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Key, NewKey, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::courier::Courier;
use crate::merchant::{Ask, Merchant};

/// The time on the service's clock until a test moves it.
pub const NOW: &str = "2026-02-01T12:00:00.000001+00:00";
/// A master key.
const MASTER_KEY: &str = "5e771e5e771e5e771e5e771e5e771e5e771e5e771e5e771e5e771e5e771e5e77";

/// An empty store, and how to serve it.
pub struct Setup {
    scratch: ScratchStore,
    /// The bounds of a request; there is no rate limit unless a test sets one.
    pub limits: Limits,
    /// The bounds of the listener.
    pub server: ServerLimits,
    /// A clock instead of the one that a test moves by hand.
    pub clock: Option<Arc<dyn Clock>>,
    /// A resolver instead of the stub.
    pub resolver: Option<Arc<dyn Resolve>>,
}

impl Setup {
    pub async fn sqlite() -> Setup {
        Setup::on(settle_store_sqlite::testing::scratch().await)
    }

    pub async fn postgres() -> Setup {
        Setup::on(settle_store_postgres::testing::scratch().await)
    }

    /// On a role from which a test can take rights.
    pub async fn postgres_of_role() -> Setup {
        Setup::on(settle_store_postgres::testing::scratch_of_role().await)
    }

    fn on(scratch: ScratchStore) -> Setup {
        let limits = Limits { requests_per_second: None, ..Limits::default() };
        Setup { scratch, limits, server: ServerLimits::default(), clock: None, resolver: None }
    }

    /// The store alone, without a schema.
    pub fn into_scratch(self) -> ScratchStore {
        self.scratch
    }

    /// Serves the merchant API.
    pub async fn start(self) -> Service {
        let scratch = self.scratch.migrated().await;
        let (clock, entropy) = (
            Arc::new(ManualClock::at(NOW.parse().expect("a time"))),
            Arc::new(SeededEntropy::new(20_260_201)),
        );
        let stub = Arc::new(stub());
        let resolver = self.resolver.unwrap_or_else(|| stub.clone());
        let ring = ring();
        let courier = Arc::new(Courier::default());
        let wake = Wake::default();
        let state = ApiState::new(settle_api::Parts {
            store: scratch.share(),
            ring: ring.clone(),
            guard: Guard::new(GuardPolicy::default(), resolver),
            transport: courier.clone(),
            outbox: Outbox::of_service(scratch.share(), wake.clone(), clock.clone(), entropy.clone()),
            clock: self.clock.unwrap_or_else(|| clock.clone()),
            entropy: entropy.clone(),
            messages: Messages::built_in().expect("the languages are complete"),
            limits: self.limits,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = watch::channel(false);
        let (health, _) = crate::operator::health(scratch.share(), None);
        let served = tokio::spawn(server::serve(
            listener,
            Routes::make().merchants(&state, health),
            self.server,
            until(stopped),
        ));
        let store = scratch.share();
        let (stub, served) = (stub.clone(), Mutex::new(Some(served)));
        Service(Arc::new(Parts {
            address,
            store,
            ring,
            clock,
            entropy,
            stub,
            courier,
            wake,
            stop,
            served,
            scratch,
        }))
    }

    /// Serves the merchant API to one merchant.
    pub async fn merchant(self) -> Merchant {
        self.start().await.merchant().await
    }
}

/// The master keys of every service under test.
pub fn ring() -> Arc<KeyRing> {
    Arc::new(KeyRing::parse(MASTER_KEY).expect("a master key"))
}

/// A resolver that knows one good host and two bad ones.
fn stub() -> StubResolver {
    let addresses = |texts: &[&str]| -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    };
    StubResolver::new()
        .with("merchant.example", addresses(&["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]))
        .with("private.example", addresses(&["10.0.0.1"]))
        .with("mixed.example", addresses(&["93.184.215.14", "127.0.0.1"]))
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // If the sender is gone, its test has ended.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// A running service. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Parts>);

/// The parts behind [`Service`].
pub struct Parts {
    pub address: SocketAddr,
    pub store: Arc<dyn Store>,
    pub ring: Arc<KeyRing>,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<SeededEntropy>,
    pub stub: Arc<StubResolver>,
    pub courier: Arc<Courier>,
    pub wake: Wake,
    stop: watch::Sender<bool>,
    served: Mutex<Option<JoinHandle<()>>>,
    scratch: ScratchStore,
}

impl Deref for Service {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Service {
    /// A merchant with a key.
    pub async fn merchant(&self) -> Merchant {
        let id = fixtures::merchant(&*self.store).await;
        let (key_id, key) = self.new_key(id).await;
        Merchant { service: self.clone(), id, key_id, key }
    }

    /// Makes one more key of a merchant.
    pub async fn new_key(&self, merchant: MerchantId) -> (KeyId, String) {
        let credential = Credential::generate(CredentialKind::ApiKey, &*self.entropy);
        let key_id = KeyId::new(self.clock.now(), &*self.entropy);
        let key = Key {
            key_id,
            merchant_id: merchant,
            label: None,
            last_four: credential.last_four(),
            created_at: self.clock.now(),
            revoked_at: None,
        };
        let hash = credential.hash();
        let seal = self.ring.seal_credential(Holder::Merchant { merchant_id: merchant, key_id }, hash);
        let mut tx = self.store.begin().await.expect("a transaction");
        tx.key_create(&NewKey { key, hash, seal }).await.expect("a key");
        tx.commit().await.expect("a commit");
        (key_id, credential.expose().to_owned())
    }

    /// Revokes a key.
    pub async fn revoke(&self, key: KeyId) {
        let mut tx = self.store.begin().await.expect("a transaction");
        tx.key_revoke(key, self.clock.now()).await.expect("a revocation");
        tx.commit().await.expect("a commit");
    }

    /// Changes the database behind the service's back.
    pub async fn execute(&self, sql: &'static str) {
        self.scratch.execute(sql).await;
    }

    /// A request without a key.
    pub fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    /// Tells the service to stop.
    pub fn stop(&self) {
        self.stop.send(true).expect("the service runs");
    }

    /// Whether the service has stopped.
    pub fn has_stopped(&self) -> bool {
        let served = self.served.lock().expect("one test at a time");
        served.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the service has stopped.
    pub async fn stopped(&self) {
        let served = self.served.lock().expect("one test at a time").take();
        served.expect("waited for once").await.expect("the service stops in order");
    }
}
