//! `/v1/settlements`.

mod list;
mod record;
