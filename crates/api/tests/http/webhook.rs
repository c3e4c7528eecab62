//! `/v1/webhook`.

mod deliveries;
mod secret;
mod show;
mod test;
mod update;
mod update_body;
