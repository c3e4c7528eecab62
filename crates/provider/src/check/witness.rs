//! What a sandbox says that it has really executed.

use serde::Deserialize;
use uuid::Uuid;

use super::Kit;
use crate::client::Client;

/// Pages read at most: a sandbox with more executions than this is better begun anew.
const PAGES_MAX: usize = 1_000;

#[derive(Deserialize)]
struct Page {
    executions: Vec<Execution>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Execution {
    operation_id: Uuid,
    times: u64,
}

/// Whether the provider lists its executions.
pub(super) async fn is_there(client: &Client) -> bool {
    page(client, None).await.is_some()
}

async fn page(client: &Client, after: Option<&str>) -> Option<Page> {
    let path = match after {
        Some(after) => format!("/sandbox/executions?after={after}"),
        None => "/sandbox/executions".to_owned(),
    };
    serde_json::from_slice(&client.get_unsigned(path).await?).ok()
}

impl Kit<'_> {
    /// How often an operation was really executed; `None` if nobody says.
    pub(super) async fn times(&self, operation_id: Uuid) -> Option<u64> {
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let page = page(self.client, after.as_deref()).await.filter(|_| self.has_witness)?;
            if let Some(found) = page.executions.iter().find(|found| found.operation_id == operation_id) {
                return Some(found.times);
            }
            after = page.next;
            if after.is_none() {
                return Some(0);
            }
        }
        None
    }

    /// Whether an operation was executed as often as it should be, as far as anybody says.
    pub(super) async fn executed(&self, operation_id: Uuid, expected: u64) -> Result<(), String> {
        match self.times(operation_id).await {
            Some(times) if times != expected => {
                Err(format!("{operation_id} was executed {times} times instead of {expected}"))
            }
            _ => Ok(()),
        }
    }
}
