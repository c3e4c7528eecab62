//! What a provider says of itself, and the list of what has changed there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Body, Operation, WireFault, optional_text, text};

/// Two assets that a provider converts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pair {
    /// The asset that is sold.
    pub sell: String,
    /// The asset that is bought.
    pub buy: String,
}

/// `GET /capabilities`: what a provider can do, and how long it remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// Names the provider's memory; another one when it was restored or made anew.
    pub instance: String,
    /// Whether no real money moves.
    pub sandbox: bool,
    /// What it converts.
    pub pairs: Vec<Pair>,
    /// What it pays out and refunds.
    pub assets: Vec<String>,
    /// How long it knows an idempotency key, at least.
    pub idempotency_window_seconds: u64,
}

impl Body for Capabilities {
    fn check(&self) -> Result<(), WireFault> {
        text("instance", &self.instance)?;
        for (index, pair) in self.pairs.iter().enumerate() {
            text(&format!("pairs[{index}].sell"), &pair.sell)?;
            text(&format!("pairs[{index}].buy"), &pair.buy)?;
        }
        self.assets.iter().enumerate().try_for_each(|(index, asset)| text(&format!("assets[{index}]"), asset))
    }
}

/// `GET /operations`: what has changed, the longest ago first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationPage {
    /// The operations, each once and as it stands.
    pub operations: Vec<Operation>,
    /// Where the next page begins; null when there is none.
    #[serde(default)]
    pub next: Option<String>,
}

impl Body for OperationPage {
    fn check(&self) -> Result<(), WireFault> {
        for (index, operation) in self.operations.iter().enumerate() {
            let at = |fault: WireFault| {
                WireFault::new(format!("operations[{index}].{}", fault.field), fault.problem)
            };
            operation.check().map_err(at)?;
        }
        optional_text("next", self.next.as_deref())
    }
}
