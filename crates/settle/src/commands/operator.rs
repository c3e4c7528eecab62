//! `settle operator`: add, list and revoke operators.

use clap::Subcommand;
use serde::Serialize;
use settle_accounts::operators;
use settle_domain::ids::OperatorId;
use settle_domain::time::Timestamp;
use settle_store::{Operator, Revocation};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};

use super::CommandError;
use crate::output::{self, CreatedFormat, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum OperatorCommand {
    /// Add an operator; its token is shown this once
    Create {
        /// A name of its own
        name: String,
        #[command(flatten)]
        format: CreatedFormat,
    },
    /// List all operators, revoked ones included
    List(OutputFormat),
    /// Revoke an operator's token; it holds from the next request on, on every node
    Revoke {
        /// Which operator
        operator_id: OperatorId,
    },
}

#[derive(Serialize)]
struct Created<'a> {
    operator_id: OperatorId,
    name: String,
    token: &'a str,
    created_at: Timestamp,
}

#[derive(Serialize)]
struct Listed {
    operator_id: OperatorId,
    name: String,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
}

impl OperatorCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::List(_)) { User::Reader } else { User::Command }
    }

    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::Create { name, format } => create(&context, &name, format).await,
            Self::List(format) => list(&context, format).await,
            Self::Revoke { operator_id } => revoke(&context, operator_id).await,
        }
    }
}

async fn create(context: &Context, name: &str, format: CreatedFormat) -> Result<(), CommandError> {
    let (store, ring) = (&*context.store, &*context.ring);
    let (operator, credential) = operators::create(store, ring, &SystemClock, &SystemEntropy, name).await?;
    let token = credential.expose();
    let text = format!(
        "Operator {} ({})\n\n    {token}\n\nIt is not shown again.",
        operator.operator_id, operator.name
    );
    let created = Created {
        operator_id: operator.operator_id,
        name: operator.name,
        token,
        created_at: operator.created_at,
    };
    Ok(output::print_created(format, &created, token, || text)?)
}

async fn list(context: &Context, format: OutputFormat) -> Result<(), CommandError> {
    let operators: Vec<Listed> = operators::list(&*context.store).await?.into_iter().map(listed).collect();
    let row = |operator: &Listed| {
        let revoked = operator.revoked_at.map_or("-".to_owned(), |time| time.to_string());
        vec![
            operator.operator_id.to_string(),
            operator.created_at.to_string(),
            revoked,
            operator.name.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = operators.iter().map(row).collect();
    let head = ["OPERATOR_ID", "CREATED_AT", "REVOKED_AT", "NAME"];
    Ok(output::print(format, &operators, || output::table(&head, &rows))?)
}

fn listed(operator: Operator) -> Listed {
    Listed {
        operator_id: operator.operator_id,
        name: operator.name,
        created_at: operator.created_at,
        revoked_at: operator.revoked_at,
    }
}

async fn revoke(context: &Context, operator_id: OperatorId) -> Result<(), CommandError> {
    match operators::revoke(&*context.store, &SystemClock, operator_id).await? {
        Revocation::Revoked => Ok(output::print_text(&format!("Operator {operator_id} is revoked."))?),
        Revocation::AlreadyRevoked => {
            Ok(output::print_text(&format!("Operator {operator_id} was revoked before."))?)
        }
        Revocation::Unknown => Err(CommandError::Refused(format!("there is no operator {operator_id}"))),
    }
}
