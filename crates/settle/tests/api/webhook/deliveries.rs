//! `/v1/webhook/deliveries`.

mod list;
mod record;
mod redeliver;
mod states;
