//! `/v1/webhook/deliveries`.

mod endpoint;
mod list;
mod outcomes;
mod record;
mod redeliver;
mod request;
mod schedule;
mod states;
