//! Where a service for development is, and what opens it: one JSON line that a test suite can start from.

use std::net::SocketAddr;

use serde::Serialize;
use settle_accounts::{keys, operators};
use settle_domain::ids::MerchantId;
use settle_wiring::Context;
use settle_wiring::system::{SystemClock, SystemEntropy};

use super::CommandError;
use crate::output::{self, OutputFormat};

/// Base URLs, a merchant with a key, and an operator's token. It holds secrets, so it has no `Debug`.
#[derive(Serialize)]
pub(super) struct Access {
    pub(super) api_url: String,
    pub(super) operator_url: String,
    pub(super) merchant_id: MerchantId,
    pub(super) api_key: String,
    pub(super) operator_token: String,
}

impl Access {
    /// Makes a key for the merchant, and an operator of this name.
    pub(super) async fn make(
        context: &Context,
        merchant_id: MerchantId,
        operator: &str,
        api_address: SocketAddr,
        operator_address: SocketAddr,
    ) -> Result<Access, CommandError> {
        let (store, ring) = (&*context.store, &*context.ring);
        let (_, token) = operators::create(store, ring, &SystemClock, &SystemEntropy, operator).await?;
        Ok(Access {
            api_url: format!("http://{api_address}"),
            operator_url: format!("http://{operator_address}"),
            merchant_id,
            api_key: new_key(context, merchant_id).await?,
            operator_token: token.expose().to_owned(),
        })
    }

    /// Prints it as one line on standard output, at once.
    pub(super) fn print(&self) -> std::io::Result<()> {
        output::print(OutputFormat { json: true }, self, String::new)
    }
}

/// Makes a key, and gives its plain text.
pub(super) async fn new_key(context: &Context, merchant_id: MerchantId) -> Result<String, CommandError> {
    let (store, ring) = (&*context.store, &*context.ring);
    let (_, key) = keys::create(store, ring, &SystemClock, &SystemEntropy, merchant_id, None).await?;
    Ok(key.expose().to_owned())
}
