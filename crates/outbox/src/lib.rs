//! Completing: a settlement and its notification in one transaction, and waking whoever must know.
//!
//! | module | what it does |
//! |---|---|
//! | [`recorder`] | records completed settlements, many callers sharing a commit |
//! | [`wake`] | tells the dispatcher at once that something is due |

pub mod recorder;
pub mod wake;
