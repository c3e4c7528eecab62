//! The sandbox as a process, which is killed and comes back at the same address with the same file.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use settle_domain::money::{Asset, Decimal};
use settle_testing::binary::text;
use settle_testing::serving::get;

use crate::setup::Setup;

/// What the service and the sandbox sign with.
pub const SECRET: &str = "hush";

/// Ports to choose from: below those that the kernel gives to clients. While nobody listens, a client could
/// otherwise get the port for itself.
const PORTS: Range<u16> = 10_000..15_000;

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
    pub kind: String,
    /// The pay-in or the destination.
    pub reference: String,
    pub asset: Asset,
    pub amount: Decimal,
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
        let mut executions = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let page = get(self.address, &format!("/sandbox/executions?after={after}"), "").json();
            for execution in page["executions"].as_array().expect("a list") {
                let text = |field: &str| execution[field].as_str().expect("a text").to_owned();
                executions.push(Execution {
                    kind: text("kind"),
                    reference: text("reference"),
                    asset: text("asset").parse().expect("an asset"),
                    amount: text("amount").parse().expect("an amount"),
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
