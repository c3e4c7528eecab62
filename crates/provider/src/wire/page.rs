//! What a provider says of itself, and the list of what has changed there.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Body, Operation, WireFault, optional_text, read, text};

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

/// Most characters kept of what cannot be read.
const TOLD_CHARACTERS_MAX: usize = 2_000;

/// `GET /operations`: what has changed, the longest ago first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OperationPage {
    /// The operations, each once and as it stands.
    pub operations: Vec<Operation>,
    /// Where the next page begins; null when there is none.
    #[serde(default)]
    pub next: Option<String>,
    /// Those of them that cannot be read: whoever reads a list has use for the others, and for the next page.
    #[serde(skip)]
    #[schema(ignore)]
    pub unreadable: Vec<UnreadableOperation>,
}

/// What stands in a list in the place of an operation, and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableOperation {
    /// Which operation it is, if it says that.
    pub operation_id: Option<Uuid>,
    /// Why it is none. The field is that of the page.
    pub fault: WireFault,
    /// How it begins.
    pub told: String,
}

impl UnreadableOperation {
    fn new(index: usize, text: &str, fault: WireFault) -> UnreadableOperation {
        let whole = format!("operations[{index}]");
        let field = if fault.field.is_empty() { whole } else { format!("{whole}.{}", fault.field) };
        UnreadableOperation {
            operation_id: serde_json::from_str(text).ok().map(|Named { operation_id }| operation_id),
            fault: WireFault::new(field, fault.problem),
            told: text.chars().take(TOLD_CHARACTERS_MAX).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Named {
    operation_id: Uuid,
}

/// A page whose operations nobody has looked at.
#[derive(Deserialize)]
struct Rows<'a> {
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
    #[serde(default)]
    next: Option<String>,
}

impl<'de> Deserialize<'de> for OperationPage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OperationPage, D::Error> {
        let Rows { operations: rows, next } = Rows::deserialize(deserializer)?;
        let mut page = OperationPage { operations: Vec::with_capacity(rows.len()), next, unreadable: vec![] };
        for (index, row) in rows.into_iter().enumerate() {
            match read(row.get().as_bytes()) {
                Ok(operation) => page.operations.push(operation),
                Err(fault) => page.unreadable.push(UnreadableOperation::new(index, row.get(), fault)),
            }
        }
        Ok(page)
    }
}

impl Body for OperationPage {
    fn check(&self) -> Result<(), WireFault> {
        optional_text("next", self.next.as_deref())
    }
}
