//! Look-ups while a call is under way, and waiting for what is pending.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{Finding, Kit};
use crate::provider::Provider;
use crate::seen::Seen;
use crate::wire::{Operation, OperationKind, OperationStatus};

/// How long the kit waits for what is pending, and how often it looks.
const FINAL_TIMEOUT: Duration = Duration::from_mins(2);
const LOOK_PAUSE: Duration = Duration::from_millis(200);

impl Kit<'_> {
    /// Looks an operation up until it is final.
    pub(super) async fn outcome(&self, operation_id: Uuid) -> Result<Operation, String> {
        let looking = async {
            loop {
                match self.client.look_up(operation_id, self.clock.now()).await {
                    Seen::Answered(operation) if operation.status != OperationStatus::Pending => {
                        return Ok(operation);
                    }
                    Seen::Answered(_) => sleep(LOOK_PAUSE).await,
                    other => return Err(format!("a look-up of {operation_id} gave {}", other.told())),
                }
            }
        };
        let late = |_| Err(format!("{operation_id} is still pending after {} s", FINAL_TIMEOUT.as_secs()));
        timeout(FINAL_TIMEOUT, looking).await.unwrap_or_else(late)
    }

    /// Look-ups tell the truth while a call is under way, and after it.
    ///
    /// Once an operation was found it stays found; once it was executed, or its call has ended well, it is
    /// found. A sandbox like ours is asked for a call that never ends.
    pub(super) async fn slow_call(&self) -> Finding {
        let operation_id = self.key();
        let destination = if self.has_witness {
            format!("sandbox:timeout:check-{operation_id}")
        } else {
            self.destination()
        };
        let body = self.payout(operation_id, self.amount(), &destination);
        let sending = self.client.send(OperationKind::Payout, operation_id, body, self.clock.now());
        let looking = self.look_until_found(operation_id);
        let mut sending = std::pin::pin!(sending);
        let found = tokio::select! {
            found = looking => found?,
            answered = &mut sending => match answered {
                Seen::Answered(_) => self.outcome(operation_id).await?,
                other => return Err(format!("the payout gave {}", other.told())),
            },
        };
        if found.status == OperationStatus::Refused {
            return Err("while the call was under way, a look-up said that it is refused".to_owned());
        }
        let after = self.outcome(operation_id).await?;
        if after.status != OperationStatus::Succeeded {
            return Err(format!("after the call, a look-up says {:?}", after.status));
        }
        self.executed(operation_id, 1).await?;
        Ok("found while the call was under way, and the same after it".to_owned())
    }

    /// Looks up until the operation is found. It may be absent only as long as it is not executed.
    async fn look_until_found(&self, operation_id: Uuid) -> Result<Operation, String> {
        let looking = async {
            loop {
                // Asked before: what is executed now must be found from now on.
                let is_executed = self.times(operation_id).await.is_some_and(|times| times > 0);
                match self.client.look_up(operation_id, self.clock.now()).await {
                    Seen::Answered(found) => return Ok(found),
                    Seen::Absent(_) if is_executed => {
                        let text = "while the call was under way, a look-up said 404 of what was executed";
                        return Err(text.to_owned());
                    }
                    Seen::Absent(_) => sleep(LOOK_PAUSE).await,
                    other => return Err(format!("a look-up gave {}", other.told())),
                }
            }
        };
        let late = |_| Err("a look-up never found what was sent".to_owned());
        timeout(FINAL_TIMEOUT, looking).await.unwrap_or_else(late)
    }
}
