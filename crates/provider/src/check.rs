//! The conformance kit: what Settle relies on, tried on a provider.
//!
//! It moves money, as every payout does: one that conforms executes one conversion, one refund and a few
//! payouts in a sandbox, and exactly one payout when it is live. A provider that does not conform may execute
//! more.
//!
//! It believes what it can see for itself. A sandbox that lists its executions as ours does (`GET
//! /sandbox/executions`) is asked how often it has really executed; of any other provider only the answers
//! tell.

use std::sync::Arc;

use serde::Serialize;
use settle_domain::money::Decimal;
use settle_domain::seams::{Clock, Entropy, random_bytes};
use uuid::Uuid;

mod slow;
mod steps;
mod witness;

use crate::client::{Client, ClientSettings, RootsFault};
use crate::provider::Provider;
use crate::seen::Seen;
use crate::signing::ProviderSecret;
use crate::wire::Capabilities;

/// The secret of a stranger, who must be turned away.
const STRANGERS_SECRET: &str = "not the secret of this provider";

/// What the kit may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terms {
    /// Whatever it likes, at a provider that says that it is a sandbox.
    Sandbox,
    /// Pay out real money, to this destination.
    Live {
        /// Where it goes.
        destination: String,
        /// How much.
        amount: Decimal,
        /// Of what; otherwise the first asset that the provider names.
        asset: Option<String>,
    },
}

/// What came of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The provider keeps to it.
    Ok,
    /// It does not.
    Failed,
    /// It was not tried; the finding says why.
    Skipped,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What must hold.
    pub check: &'static str,
    /// Whether it does.
    pub verdict: Verdict,
    /// What was seen.
    pub finding: String,
}

/// What the kit has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The provider's memory, if it told.
    pub instance: Option<String>,
    /// Whether it says that no real money moves.
    pub sandbox: bool,
    /// Every check, in the order in which they were made.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether no check has failed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Failed)
    }
}

/// Why the kit does not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermsFault {
    /// The provider does not say that it is a sandbox.
    #[error("the provider does not say `\"sandbox\": true`: real money would move")]
    NotASandbox,
    /// The certificates cannot be used.
    #[error(transparent)]
    Roots(RootsFault),
}

/// What a check gives: what was seen, good or bad.
type Finding = Result<String, String>;

/// A provider under examination.
struct Kit<'a> {
    client: &'a Client,
    stranger: Client,
    clock: Arc<dyn Clock>,
    entropy: &'a dyn Entropy,
    terms: Terms,
    capabilities: Capabilities,
    /// Whether it lists what it has executed.
    has_witness: bool,
}

/// Tries a provider.
pub async fn examine(
    settings: ClientSettings,
    terms: Terms,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
) -> Result<Report, TermsFault> {
    let strangers = ClientSettings { secret: stranger(), ..settings.clone() };
    let client = Client::new(settings, clock.clone()).map_err(TermsFault::Roots)?;
    let stranger = Client::new(strangers, clock.clone()).map_err(TermsFault::Roots)?;
    let capabilities = match client.capabilities(clock.now()).await {
        Seen::Answered(capabilities) => capabilities,
        other => {
            let check = failed(steps::CAPABILITIES, format!("no signed capabilities: {}", other.told()));
            return Ok(Report { instance: None, sandbox: false, checks: vec![check] });
        }
    };
    if terms == Terms::Sandbox && !capabilities.sandbox {
        return Err(TermsFault::NotASandbox);
    }
    let has_witness = witness::is_there(&client).await;
    let kit = Kit { client: &client, stranger, clock, entropy, terms, capabilities, has_witness };
    let checks = kit.checks().await;
    Ok(Report { instance: Some(kit.capabilities.instance), sandbox: kit.capabilities.sandbox, checks })
}

#[expect(clippy::expect_used, reason = "a constant that a test of this module parses")]
fn stranger() -> ProviderSecret {
    ProviderSecret::parse(STRANGERS_SECRET.to_owned()).expect("it is short and has no control characters")
}

impl Kit<'_> {
    /// A new idempotency key.
    fn key(&self) -> Uuid {
        uuid::Builder::from_random_bytes(random_bytes(self.entropy)).into_uuid()
    }

    fn is_live(&self) -> bool {
        self.terms != Terms::Sandbox
    }
}

fn failed(check: &'static str, finding: String) -> Check {
    Check { check, verdict: Verdict::Failed, finding }
}
