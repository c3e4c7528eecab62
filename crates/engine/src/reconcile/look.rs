//! A look-up beside the engine: the payment hears the provider's word, and nothing is sent.

use std::sync::Arc;

use settle_domain::ids::OperationId;
use settle_store::{CALL_TIMEOUT, OperationRow, StoreError, within};

use super::patience::{Patience, Word, is_word};
use super::{ReconcileError, Reconciler};
use crate::advance::{Advance, Follow, Told};
use crate::providers::Station;
use crate::words;
use crate::writer::Written;

/// How often an advance is made anew because somebody else has changed the payment meanwhile.
const STALE_MAX: u32 = 8;

impl Reconciler {
    /// Looks an operation up and lets its payment hear of it. What follows is the engine's: the payment is
    /// due at once. Without the provider's word the step is tried again, for the operation is not listed
    /// twice; when the run goes on without it, the engine is left to ask.
    pub(super) async fn look(
        &self,
        station: &Station,
        row: &OperationRow,
        patience: &mut Patience,
    ) -> Result<(), ReconcileError> {
        let (merchant, payment, id): (_, _, OperationId) =
            (row.merchant_id, row.payment_id, row.operation_id);
        station.capabilities().await;
        let mut seen = None;
        for _ in 0..STALE_MAX {
            let Some(case) = within(CALL_TIMEOUT, self.means.read(merchant, payment)).await? else {
                return Ok(());
            };
            let Some(place) = case.position(id) else { return Ok(()) };
            let tracked = &case.operations[place];
            let answer = if let Some(answer) = seen.take() {
                answer
            } else {
                let answer = station.look_up(id).await;
                patience.asked(station, &answer, Word::Needed)?;
                answer
            };
            seen = Some(answer.clone());
            let advance = if is_word(&answer) {
                let (request, promise) = (&tracked.operation.request, case.promise_of(place));
                let word = words::of_look_up(answer, request, promise.as_ref(), tracked.instance.as_deref());
                let corridor = self.means.corridor(&case).await?;
                let told = Told { may_send: false, ..self.means.told(&case, place, corridor.as_deref()) };
                let advance = self.means.judged(case.clone(), place, word, &told);
                let mut advance = advance.map_err(|stuck| StoreError::unexpected(stuck.to_string()))?;
                if matches!(advance.follow, Follow::Again | Follow::Void(_)) {
                    advance.case.due_at = Some(self.means.clock.now());
                }
                advance
            } else {
                Advance::hinted(case, place, self.means.clock.now())
            };
            match self.means.writer.write(advance, None).await {
                Ok(Written::Done) => {
                    self.wake.merchants([merchant]);
                    return Ok(());
                }
                Ok(Written::Stale | Written::Lost) => {}
                Err(fault) => return Err(passed_on(fault).into()),
            }
        }
        // Whoever changes it so often hears of it too.
        Ok(())
    }
}

/// The writer's fault as one of ours: what the database refuses is refused at every try.
fn passed_on(fault: Arc<StoreError>) -> StoreError {
    match *fault {
        StoreError::Unavailable(_) => StoreError::Unavailable(Box::new(fault)),
        _ => StoreError::Unexpected(Box::new(fault)),
    }
}
