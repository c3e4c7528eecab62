//! Completing on both stores: for many callers at once, and for imports of any size.

mod imports;
mod recorder;
