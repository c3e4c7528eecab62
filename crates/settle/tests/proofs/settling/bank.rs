//! The sandbox as a process, which is killed and comes back at the same address with the same file.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::money::{Asset, Decimal};
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_provider::client::{Client, ClientSettings, Endpoint};
use settle_provider::provider::Provider;
use settle_provider::seen::Seen;
use settle_provider::signing::ProviderSecret;
use settle_provider::wire::OperationStatus;
use settle_testing::binary::{block_on, text};
use settle_testing::serving::get;
use settle_wiring::system::SystemClock;
use uuid::Uuid;

use crate::setup::Setup;

/// What the service and the sandbox sign with.
pub const SECRET: &str = "hush";

/// Ports to choose from: below those that the kernel gives to clients. While nobody listens, a client could
/// otherwise get the port for itself.
const PORTS: Range<u16> = 10_000..15_000;

/// How long it may take to list what it did.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// An address that nobody listens on, to come back to.
pub fn address() -> SocketAddr {
    let first =
        u16::try_from(std::process::id() % u32::from(PORTS.end - PORTS.start)).expect("a small number");
    let ports = (PORTS.start + first..PORTS.end).chain(PORTS.start..PORTS.start + first);
    let free = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    free.into_iter().find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

/// Something that the sandbox has really executed.
#[derive(Debug, Clone)]
pub struct Execution {
    pub operation_id: Uuid,
    pub kind: String,
    /// The pay-in or the destination.
    pub reference: String,
    pub asset: Asset,
    pub amount: Decimal,
    /// What a conversion bought.
    pub bought: Option<(Asset, Decimal)>,
    pub times: u64,
}

/// A sandbox, killed at the end of the test.
pub struct Bank {
    child: Child,
    address: SocketAddr,
    file: PathBuf,
}

impl Bank {
    pub fn start(setup: &Setup, address: SocketAddr) -> Bank {
        let file = setup.settle.data().join("bank.jsonl");
        let mut bank = Bank { child: spawn(setup, address, &file), address, file };
        bank.wait(setup);
        bank
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }

    pub fn restart(&mut self, setup: &Setup) {
        self.child = spawn(setup, self.address, &self.file);
        self.wait(setup);
    }

    fn wait(&mut self, setup: &Setup) {
        setup.tally.retry("the sandbox listens", || {
            assert_eq!(self.child.try_wait().expect("a child of ours"), None, "the sandbox has ended");
            TcpStream::connect(self.address).ok()
        });
    }

    /// How many bytes it has written down.
    pub fn written(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |file| file.len())
    }

    /// Everything that it has executed.
    pub fn executions(&self) -> Vec<Execution> {
        let bought = block_on(self.bought());
        let mut executions = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let page = get(self.address, &format!("/sandbox/executions?after={after}"), "").json();
            for execution in page["executions"].as_array().expect("a list") {
                let text = |field: &str| execution[field].as_str().expect("a text").to_owned();
                let operation_id = text("operation_id").parse().expect("an id");
                executions.push(Execution {
                    operation_id,
                    kind: text("kind"),
                    reference: text("reference"),
                    asset: text("asset").parse().expect("an asset"),
                    amount: text("amount").parse().expect("an amount"),
                    bought: bought.get(&operation_id).copied(),
                    times: execution["times"].as_u64().expect("a number"),
                });
            }
            match page["next"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => return executions,
            }
        }
    }
}

impl Bank {
    /// What its conversions bought: of that the list of executions says nothing, and the protocol does.
    async fn bought(&self) -> HashMap<Uuid, (Asset, Decimal)> {
        let settings = ClientSettings {
            endpoint: Endpoint::parse(&format!("http://{}", self.address)).expect("a URL"),
            secret: ProviderSecret::parse(SECRET.to_owned()).expect("a secret"),
            timeout: ANSWERS_WITHIN,
            extra_roots_pem: Vec::new(),
        };
        let client = Client::new(settings, Arc::new(SystemClock)).expect("no roots of its own");
        let (mut bought, mut after) = (HashMap::new(), None);
        loop {
            let seen = client.changes(Timestamp::from_micros(0), after.as_deref(), SystemClock.now()).await;
            let Seen::Answered(page) = seen else { panic!("the sandbox does not list: {seen:?}") };
            let done = page.operations.into_iter().filter(|one| one.status == OperationStatus::Succeeded);
            bought.extend(done.filter_map(|one| {
                let asset = one.bought_asset?.parse().expect("an asset");
                Some((one.operation_id, (asset, one.bought_amount?)))
            }));
            after = page.next;
            if after.is_none() {
                return bought;
            }
        }
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(setup: &Setup, address: SocketAddr, file: &std::path::Path) -> Child {
    let address = address.to_string();
    let arguments = ["sandbox", "--listen", &address, "--secret", SECRET, "--data", text(file)];
    let mut command = setup.settle.command(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the binary runs")
}
