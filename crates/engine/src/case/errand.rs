//! What the engine is about to do with an operation.

use serde::{Deserialize, Serialize};

/// What is to be done with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    /// Somebody is about to send it, or is sending it.
    Sending,
    /// Send it again.
    Send,
    /// Ask about it.
    LookUp,
    /// Ask the provider never to begin it.
    Void,
    /// Nothing.
    None,
}
