//! `settle key`: add, list and revoke the API keys of a merchant.

use clap::Subcommand;
use serde::Serialize;
use settle_accounts::keys;
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{Key, Revocation};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};

use super::CommandError;
use crate::output::{self, CreatedFormat, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key; it is shown this once
    Create {
        /// Whose key
        merchant_id: MerchantId,
        /// What to call it
        #[arg(long)]
        label: Option<String>,
        #[command(flatten)]
        format: CreatedFormat,
    },
    /// List a merchant's keys, revoked ones included
    List {
        /// Whose keys
        merchant_id: MerchantId,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Revoke a key; it holds from the next request on, on every node
    Revoke {
        /// Which key
        key_id: KeyId,
    },
}

#[derive(Serialize)]
struct Created<'a> {
    key_id: KeyId,
    merchant_id: MerchantId,
    api_key: &'a str,
    label: Option<String>,
    created_at: Timestamp,
}

#[derive(Serialize)]
struct Listed {
    key_id: KeyId,
    merchant_id: MerchantId,
    last_four: String,
    label: Option<String>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
}

impl KeyCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::List { .. }) { User::Reader } else { User::Command }
    }

    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::Create { merchant_id, label, format } => {
                create(&context, merchant_id, label.as_deref(), format).await
            }
            Self::List { merchant_id, format } => list(&context, merchant_id, format).await,
            Self::Revoke { key_id } => revoke(&context, key_id).await,
        }
    }
}

async fn create(
    context: &Context,
    merchant_id: MerchantId,
    label: Option<&str>,
    format: CreatedFormat,
) -> Result<(), CommandError> {
    let (store, ring) = (&*context.store, &*context.ring);
    let (key, credential) =
        keys::create(store, ring, &SystemClock, &SystemEntropy, merchant_id, label).await?;
    let api_key = credential.expose();
    let created =
        Created { key_id: key.key_id, merchant_id, api_key, label: key.label, created_at: key.created_at };
    let text = format!("Key {}\n\n    {api_key}\n\nIt is not shown again.", key.key_id);
    Ok(output::print_created(format, &created, api_key, || text)?)
}

async fn list(context: &Context, merchant_id: MerchantId, format: OutputFormat) -> Result<(), CommandError> {
    let keys: Vec<Listed> = keys::list(&*context.store, merchant_id).await?.into_iter().map(listed).collect();
    let row = |key: &Listed| {
        let revoked = key.revoked_at.map_or("-".to_owned(), |time| time.to_string());
        let label = key.label.clone().unwrap_or_default();
        vec![
            key.key_id.to_string(),
            format!("…{}", key.last_four),
            key.created_at.to_string(),
            revoked,
            label,
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    let head = ["KEY_ID", "KEY", "CREATED_AT", "REVOKED_AT", "LABEL"];
    Ok(output::print(format, &keys, || output::table(&head, &rows))?)
}

fn listed(key: Key) -> Listed {
    Listed {
        key_id: key.key_id,
        merchant_id: key.merchant_id,
        last_four: key.last_four,
        label: key.label,
        created_at: key.created_at,
        revoked_at: key.revoked_at,
    }
}

async fn revoke(context: &Context, key_id: KeyId) -> Result<(), CommandError> {
    match keys::revoke(&*context.store, &SystemClock, key_id).await? {
        Revocation::Revoked => Ok(output::print_text(&format!("Key {key_id} is revoked."))?),
        Revocation::AlreadyRevoked => Ok(output::print_text(&format!("Key {key_id} was revoked before."))?),
        Revocation::Unknown => Err(CommandError::Refused(format!("there is no key {key_id}"))),
    }
}
