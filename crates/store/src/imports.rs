//! Imports: settlements that are too many for one transaction, recorded all of them or none.
//!
//! An import is first *staged*: short transactions write its rows down beside the settlements, where no list
//! shows them. One small transaction *accepts* it: until then it can be discarded without a trace, from then
//! on every row will be recorded. Then short steps take rows out of the staged ones and record them, each row
//! in the transaction that takes it. So nobody waits for an import longer than for one of its steps, and
//! whatever dies between two steps, the next one goes on from there.
//!
//! Nothing can come into conflict with what is staged: staging compares a row with what is stored, under the
//! merchant's lock, and whoever records a settlement or creates a payment afterwards compares it with what is
//! staged. A merchant's
//! row counts its staged settlements, and everybody who locks the merchant reads that count with the lock: as
//! long as it is zero, nothing more is asked.
//!
//! Whoever works on an import says so with every step (`alive_at`). If nobody does any more, somebody else
//! adopts it. Two who work on the same import do no harm: a row that another one has taken is left alone.
//!
//! Staged rows lie by import, not by merchant: an import is walked as a whole, and whoever records a
//! settlement finds a row by its whole key, in the few imports that there are.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_domain::time::Timestamp;

use crate::{Content, MerchantLock, NewSettlement, StoreError, StoreResult};

/// Imports that can be under way at the same time. Whoever records settlements of their merchants looks at
/// each of them. Of imports that begin at the same moment one more may pass.
pub const IMPORTS_MAX: u32 = 16;

/// Rows that one step of an import stages or records: some five milliseconds' work. On SQLite everybody's
/// writes wait for it; on PostgreSQL a commit at the same moment waits for its part of the journal.
pub const IMPORT_STEP_ROWS: u32 = 100;

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportState {
    /// Rows are being staged; nothing of it will be recorded unless it is accepted.
    Staging,
    /// Every row that is still staged will be recorded.
    Accepted,
    /// Every row is recorded.
    Done,
    /// Its rows are being deleted; nothing of it was recorded.
    Discarded,
}

impl ImportState {
    /// All states.
    pub const ALL: [ImportState; 4] = [Self::Staging, Self::Accepted, Self::Done, Self::Discarded];

    /// Its name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staging => "staging",
            Self::Accepted => "accepted",
            Self::Done => "done",
            Self::Discarded => "discarded",
        }
    }

    /// The state with this name in the database.
    pub fn from_stored(name: &str) -> StoreResult<ImportState> {
        let state = Self::ALL.into_iter().find(|state| state.as_str() == name);
        state.ok_or_else(|| StoreError::unexpected(format!("an import that is {name:?}")))
    }
}

/// An import under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import {
    /// The import's id.
    pub import_id: ImportId,
    /// Whether merchants are notified of its settlements.
    pub notifies: bool,
    /// How far it is.
    pub state: ImportState,
    /// When somebody last worked on it.
    pub alive_at: Timestamp,
    /// Rows that are staged.
    pub waiting: u64,
    /// Settlements that its steps recorded. A row that somebody else had recorded meanwhile is not counted.
    pub recorded: u64,
    /// Notifications that its steps enqueued.
    pub notified: u64,
}

/// What became of settlements that were to be staged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StagedBatch {
    /// Those that were staged. The others are there already, stored or staged by this import.
    pub staged: usize,
    /// Those that are stored, or will be, with other content, or are payments. Whoever sees one does not
    /// commit.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
    /// Those of the conflicting ones whose id or pay-in is a payment's.
    pub payments: Vec<(MerchantId, SettlementId)>,
    /// Those that another import has staged with other content, of which nobody knows yet whether it will be
    /// accepted. Whoever sees one does not commit.
    pub reserved: Vec<(MerchantId, SettlementId)>,
}

/// What one step of an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportStep {
    /// Rows that it took.
    pub taken: u64,
    /// Settlements that were new.
    pub recorded: u64,
    /// Notifications that it enqueued.
    pub notified: u64,
}

/// Questions about imports.
#[async_trait]
pub trait ImportReads {
    /// The imports under way, in the order of their ids.
    async fn import_list(&self) -> StoreResult<Vec<Import>>;

    /// Staged rows of an import, at most so many, in the order of merchant and settlement, after the given
    /// one.
    async fn import_rows(
        &self,
        import: ImportId,
        after: Option<(MerchantId, SettlementId)>,
        limit: u32,
    ) -> StoreResult<Vec<NewSettlement>>;
}

/// The steps of imports.
#[async_trait]
pub trait ImportWrites {
    /// Begins an import. `false` if too many are under way.
    async fn import_begin(&mut self, import: ImportId, notifies: bool, at: Timestamp) -> StoreResult<bool>;

    /// Stages settlements that are neither stored nor staged by this import, at most
    /// [`BATCH_MAX`](crate::BATCH_MAX). `None` if the import is not being staged any more: somebody took it
    /// for abandoned. Whoever sees that does not commit.
    async fn import_stage(
        &mut self,
        lock: &MerchantLock,
        import: ImportId,
        settlements: &[NewSettlement],
        at: Timestamp,
    ) -> StoreResult<Option<StagedBatch>>;

    /// Accepts an import that is being staged and has so many rows: a transaction that staged some may
    /// have been lost. Says whether it did. An import without rows is done.
    async fn import_accept(&mut self, import: ImportId, waiting: u64, at: Timestamp) -> StoreResult<bool>;

    /// Discards an import that is being staged, and says whether it did.
    async fn import_discard(&mut self, import: ImportId, at: Timestamp) -> StoreResult<bool>;

    /// Takes rows out of those that are staged, and gives those that were there. What is recorded afterwards
    /// in this transaction is compared with no other staged row of these merchants: staging has done that.
    async fn import_take(
        &mut self,
        lock: &MerchantLock,
        import: ImportId,
        rows: Vec<NewSettlement>,
    ) -> StoreResult<Vec<NewSettlement>>;

    /// Counts what a step has done. An accepted import of which nothing is left is done. Gives the import
    /// after it; `None` if it is gone.
    async fn import_count(
        &mut self,
        import: ImportId,
        step: ImportStep,
        at: Timestamp,
    ) -> StoreResult<Option<Import>>;

    /// Takes over an import on which nobody has worked since the given time, and says whether it did.
    async fn import_adopt(
        &mut self,
        import: ImportId,
        alive_at: Timestamp,
        at: Timestamp,
    ) -> StoreResult<bool>;

    /// Forgets an import that is done, or discarded, and has no rows.
    async fn import_forget(&mut self, import: ImportId) -> StoreResult<()>;
}

/// Which of the merchants that a transaction has locked have staged settlements.
#[derive(Debug, Default)]
pub struct ImportMarks(HashSet<MerchantId>);

impl ImportMarks {
    /// Remembers how many staged settlements a merchant has: read with its lock, or just changed.
    pub fn remember(&mut self, merchant: MerchantId, staged: i64) {
        if staged > 0 {
            self.0.insert(merchant);
        } else {
            self.0.remove(&merchant);
        }
    }

    /// Whether a merchant has any.
    #[must_use]
    pub fn has(&self, merchant: MerchantId) -> bool {
        self.0.contains(&merchant)
    }

    /// Those of the given settlements whose merchants have any.
    #[must_use]
    pub fn marked<'a>(&self, settlements: &[&'a NewSettlement]) -> Vec<&'a NewSettlement> {
        if self.0.is_empty() {
            return Vec::new();
        }
        settlements.iter().filter(|row| self.0.contains(&row.merchant_id)).copied().collect()
    }
}

/// A staged row as a backend finds it.
#[derive(Debug)]
pub struct StagedRow {
    /// The import.
    pub import_id: ImportId,
    /// How far that is.
    pub state: ImportState,
    /// The settlement.
    pub key: (MerchantId, SettlementId),
    /// Its content.
    pub content: Content,
}

/// What staged rows mean for settlements that are to be recorded or staged.
#[derive(Debug, Default)]
pub struct StagedVerdict {
    /// Those that the import itself has staged, with the same content.
    pub own: HashSet<(MerchantId, SettlementId)>,
    /// Those that will be stored with other content.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
    /// Those that may be stored with other content.
    pub reserved: Vec<(MerchantId, SettlementId)>,
}

impl StagedVerdict {
    /// Compares settlements with the staged rows that a backend has found for them. `own` is the import that
    /// asks, if one does.
    #[must_use]
    pub fn of(settlements: &[&NewSettlement], staged: &[StagedRow], own: Option<ImportId>) -> StagedVerdict {
        let given: HashMap<_, _> =
            settlements.iter().map(|row| ((row.merchant_id, row.settlement_id), *row)).collect();
        let mut verdict = StagedVerdict::default();
        for StagedRow { import_id, state, key, content } in staged {
            let is_own = own == Some(*import_id);
            let is_same = given.get(key).is_some_and(|given| given.has_content(content));
            if is_same {
                verdict.own.extend(is_own.then_some(*key));
            } else if is_own || *state == ImportState::Accepted {
                verdict.conflicting.push(*key);
            } else {
                verdict.reserved.push(*key);
            }
        }
        verdict
    }
}

/// How many of the given rows each merchant has, in the order of the ids.
pub fn rows_by_merchant(merchants: impl Iterator<Item = MerchantId>) -> BTreeMap<MerchantId, i64> {
    let mut numbers = BTreeMap::new();
    for merchant in merchants {
        *numbers.entry(merchant).or_default() += 1;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_one_name() {
        for state in ImportState::ALL {
            assert_eq!(ImportState::from_stored(state.as_str()).unwrap(), state);
        }
        assert!(matches!(ImportState::from_stored("Staging"), Err(StoreError::Unexpected(_))));
    }
}
