//! What has changed, and what was executed, in pages.

use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use settle_provider::wire::Operation;
use uuid::Uuid;

use super::{Held, Ledger};
use crate::broken::Broken;
use crate::journal::Journal;

/// Operations or executions on one page.
const PAGE_MAX: usize = 1_000;

/// One operation that was executed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Execution {
    operation_id: Uuid,
    kind: &'static str,
    reference: String,
    asset: String,
    amount: Decimal,
    times: u32,
}

impl Ledger {
    /// A page of what has changed since then, and where the next one begins.
    pub(crate) fn changed(
        &mut self,
        since: Timestamp,
        after: usize,
        now: Timestamp,
        journal: &Journal,
    ) -> Held<(Vec<Operation>, Option<usize>)> {
        self.advance(now, journal);
        let first = self.changes.partition_point(|(at, _)| *at < since).max(after);
        let mut operations = Vec::new();
        let mut next = None;
        for (index, (_, id)) in self.changes.iter().enumerate().skip(first) {
            if operations.len() == PAGE_MAX {
                next = Some(index);
                break;
            }
            let stored = self.stored.get(id).filter(|stored| stored.change == index);
            if let Some(stored) = stored.filter(|stored| !stored.record.is_on_its_way())
                && !self.is(Broken::ListsNothing)
            {
                operations.push(stored.record.operation(&self.instance));
            }
        }
        ((operations, next), self.last_line)
    }

    /// A page of what was executed, and where the next one begins.
    pub(crate) fn executions(
        &mut self,
        after: usize,
        now: Timestamp,
        journal: &Journal,
    ) -> Held<(Vec<Execution>, Option<usize>)> {
        self.advance(now, journal);
        let page = self.executed.iter().skip(after).take(PAGE_MAX);
        let executions: Vec<Execution> = page.filter_map(|id| self.execution(*id)).collect();
        let end = after.saturating_add(PAGE_MAX);
        ((executions, (end < self.executed.len()).then_some(end)), self.last_line)
    }

    fn execution(&self, id: Uuid) -> Option<Execution> {
        let record = &self.stored.get(&id)?.record;
        let asked = record.asked.as_ref()?;
        Some(Execution {
            operation_id: id,
            kind: asked.kind().as_str(),
            reference: asked.reference().to_owned(),
            asset: asked.asset().to_owned(),
            amount: record.amount?,
            times: record.times,
        })
    }
}
