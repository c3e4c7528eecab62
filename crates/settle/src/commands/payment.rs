//! `settle payment`: pay-ins that the engine settles, and what operators do about them.
//!
//! Everything here calls the operator API with an operator's token, so that what is done is somebody's act.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::money::{Asset, Decimal};
use settle_domain::payment::{Flag, Outcome, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_wiring::config::{Config, parse_duration};

use super::CommandError;
use super::desk::{Desk, person};
use crate::output::{self, CreatedFormat, OutputFormat};

mod story;

#[derive(Debug, Args)]
pub(super) struct PaymentCommand {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Hand a pay-in to the engine; the same again changes nothing
    Create(Create),
    /// List payments: without a state, whatever is neither completed nor refunded
    List(List),
    /// Tell one payment: what happened, how its amount came about, and what can be done
    Show {
        #[command(flatten)]
        payment: Which,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Let the engine try a failed payment again
    Retry {
        #[command(flatten)]
        act: Act,
        /// Pay out to another destination; this needs a second person
        #[arg(long, value_name = "REFERENCE")]
        destination: Option<String>,
    },
    /// Pay the whole incoming amount of a failed payment back
    Refund(Act),
    /// Stop a payment of which nothing was sent, or nothing is in flight
    Cancel(Act),
    /// Say that what was paid out came back
    Returned(Act),
    /// List what waits for a second person
    Proposals(OutputFormat),
    /// Approve what somebody else proposed: it is done at once
    Approve {
        /// Which proposal
        proposal_id: ProposalId,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Say, with evidence, what became of an operation that nobody knows the outcome of
    ///
    /// Whoever says that something was not done asks the provider first never to begin it. Where the provider
    /// does not confirm it, a second person must approve.
    Resolve {
        #[command(flatten)]
        act: Act,
        /// What became of it: paid, `not_paid`, converted, `not_converted`, refunded or `not_refunded`
        #[arg(long)]
        outcome: Outcome,
        /// What moved: needed for converted, where it is what was bought; at least what is owed for the
        /// others
        #[arg(long)]
        amount: Option<Decimal>,
        /// The provider's own name for the operation
        #[arg(long, value_name = "REFERENCE")]
        provider_reference: Option<String>,
    },
}

/// Which payment.
#[derive(Debug, Args)]
struct Which {
    /// Whose payment
    merchant_id: MerchantId,
    /// Which payment
    payment_id: PaymentId,
}

impl Which {
    fn path(&self) -> String {
        format!("/operator/v1/merchants/{}/payments/{}", self.merchant_id, self.payment_id)
    }
}

/// Something that an operator does with a payment.
#[derive(Debug, Args)]
struct Act {
    #[command(flatten)]
    payment: Which,
    /// The version that `settle payment show` showed: if the payment has changed since, nothing is done
    #[arg(long, value_parser = parse_version)]
    version: u64,
    /// Why, and how you know; it stands in the timeline
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    evidence: String,
    #[command(flatten)]
    format: OutputFormat,
}

fn parse_version(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "must be a whole number, such as 3")
}

#[derive(Debug, Args)]
struct Create {
    /// For whom
    merchant_id: MerchantId,
    /// The reference of the incoming payment
    #[arg(long, value_name = "REFERENCE")]
    reference: String,
    /// What came in
    #[arg(long)]
    amount: Decimal,
    /// The currency that came in, such as BRL
    #[arg(long, value_name = "CODE")]
    from: Asset,
    /// The asset that goes out, such as USDC
    #[arg(long, value_name = "CODE")]
    to: Asset,
    /// Where the payout goes
    #[arg(long, value_name = "REFERENCE")]
    destination: String,
    /// The account that received the pay-in [default: default]
    #[arg(long)]
    source: Option<String>,
    /// When the pay-in took place [default: now]
    #[arg(long, value_name = "TIME")]
    occurred_at: Option<Timestamp>,
    /// Fix what goes out instead of what came in
    #[arg(long, value_name = "AMOUNT")]
    outgoing_amount: Option<Decimal>,
    #[command(flatten)]
    format: CreatedFormat,
}

#[derive(Debug, Args)]
struct List {
    /// Only in this state
    #[arg(long)]
    state: Option<StateName>,
    /// Only with this flag, whatever their state: returned or astray
    #[arg(long)]
    flag: Option<Flag>,
    /// Only this merchant's
    #[arg(long, value_name = "MERCHANT_ID")]
    merchant: Option<MerchantId>,
    /// Only blocked for this reason
    #[arg(long, value_name = "CODE")]
    blocked: Option<Blocked>,
    /// Only where they are for this reason
    #[arg(long, value_name = "CODE")]
    reason: Option<Reason>,
    /// Only served by this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<ProviderName>,
    /// Only with this pay-in reference
    #[arg(long)]
    reference: Option<String>,
    /// Only in their state for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// At most so many, 1 to 200
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Where the page before said that the next one starts
    #[arg(long)]
    after: Option<String>,
    #[command(flatten)]
    format: OutputFormat,
}

impl PaymentCommand {
    pub(super) async fn run(self, config: &Config) -> Result<(), CommandError> {
        let desk = &self.desk;
        match self.action {
            Action::Create(create) => create.run(desk, config).await,
            Action::List(list) => list.run(desk, config).await,
            Action::Show { payment, format } => {
                let shown = desk.get(config, &payment.path()).await?;
                Ok(output::print(format, &shown, || story::told(&shown))?)
            }
            Action::Retry { act, destination } => {
                let own = json!({ "destination_reference": destination });
                act.run(desk, config, "retry", own).await.map(drop)
            }
            Action::Refund(act) => act.run(desk, config, "refund", json!({})).await.map(drop),
            Action::Cancel(act) => act.run(desk, config, "cancel", json!({})).await.map(drop),
            Action::Returned(act) => act.run(desk, config, "returned", json!({})).await.map(drop),
            Action::Proposals(format) => {
                let listed = desk.get(config, "/operator/v1/proposals").await?;
                Ok(output::print(format, &listed, || proposals(&listed))?)
            }
            Action::Approve { proposal_id, format } => {
                // What is approved stands there before it is done; a proposal never changes.
                let listed = desk.get(config, "/operator/v1/proposals").await?;
                let id = proposal_id.to_string();
                let mut waiting = listed["proposals"].as_array().into_iter().flatten();
                let proposal = waiting.find(|proposal| proposal["proposal_id"] == id.as_str());
                if let Some(proposal) = proposal {
                    output::print_note(&story::proposed(proposal))?;
                }
                let act = proposal.and_then(|proposal| proposal["act"].as_str()).unwrap_or_default();
                let outcome = act.strip_prefix("resolve_").and_then(|outcome| outcome.parse().ok());
                let path = format!("/operator/v1/proposals/{proposal_id}/approve");
                let done = desk.post(config, &path, &json!({})).await?;
                output::print(format, &done, || story::told(&done))?;
                outcome.map_or(Ok(()), |outcome| overruled(outcome, &done))
            }
            Action::Resolve { act, outcome, amount, provider_reference } => {
                let own = json!({
                    "outcome": outcome.to_string(),
                    "amount": amount.map(|amount| amount.to_string()),
                    "provider_reference": provider_reference,
                });
                let done = act.run(desk, config, "resolve", own).await?;
                overruled(outcome, &done)
            }
        }
    }
}

impl Act {
    /// Does it, prints the payment as it is then, and gives it.
    async fn run(self, desk: &Desk, config: &Config, verb: &str, own: Value) -> Result<Value, CommandError> {
        let mut body = json!({ "version": self.version.to_string(), "evidence": self.evidence });
        if let (Some(body), Value::Object(own)) = (body.as_object_mut(), own) {
            body.extend(own.into_iter().filter(|(_, value)| !value.is_null()));
        }
        let done = desk.post(config, &format!("{}/{verb}", self.payment.path()), &body).await?;
        output::print(self.format, &done, || story::told(&done))?;
        Ok(done)
    }
}

/// Whoever says that something was not done has its provider asked, and the provider's word counts.
fn overruled(outcome: Outcome, done: &Value) -> Result<(), CommandError> {
    let (kind, state) = (outcome.kind(), done["state"].as_str().unwrap_or_default());
    let operations = done["operations"].as_array().map_or(&[][..], Vec::as_slice);
    let status = operations.iter().rfind(|operation| operation["kind"] == kind.as_str());
    // A proposal has no operations yet.
    let status = status.and_then(|operation| operation["status"].as_str());
    let says = match status {
        Some("succeeded") => "that it was done",
        Some("unknown") => "that it did something else",
        _ => return Ok(()),
    };
    if outcome.is_done() {
        return Ok(());
    }
    Err(CommandError::Refused(format!(
        "not {outcome}: the provider says {says}, and its word counts; the payment is {state}"
    )))
}

impl Create {
    async fn run(self, desk: &Desk, config: &Config) -> Result<(), CommandError> {
        let fixed_side = self.outgoing_amount.map(|_| "outgoing");
        let body = json!({
            "merchant_id": self.merchant_id.to_string(),
            "payin_reference": self.reference,
            "payin_source": self.source,
            "incoming_currency": self.from.code(),
            "incoming_amount": self.amount.to_string(),
            "outgoing_currency": self.to.code(),
            "destination_reference": self.destination,
            "occurred_at": self.occurred_at.map(|at| at.to_string()),
            "fixed_side": fixed_side,
            "outgoing_amount": self.outgoing_amount.map(|amount| amount.to_string()),
        });
        let made = desk.post(config, "/operator/v1/payments", &body).await?;
        let payment = &made["payments"][0];
        let id = payment["payment_id"].as_str().unwrap_or_default();
        let text = || {
            let word = if payment["created"] == true { "is on its way" } else { "was there already" };
            let merchant = self.merchant_id;
            format!("Payment {id} {word}. Next: settle payment show {merchant} {id}")
        };
        Ok(output::print_created(self.format, payment, id, text)?)
    }
}

impl List {
    async fn run(self, desk: &Desk, config: &Config) -> Result<(), CommandError> {
        let asked = [
            ("state", self.state.map(|state| state.to_string())),
            ("flag", self.flag.map(|flag| flag.to_string())),
            ("merchant_id", self.merchant.map(|merchant| merchant.to_string())),
            ("blocked", self.blocked.map(|blocked| blocked.to_string())),
            ("reason", self.reason.map(|reason| reason.to_string())),
            ("provider", self.provider.map(|provider| provider.to_string())),
            ("reference", self.reference),
            ("older_than", self.older_than.map(|age| age.as_secs().to_string())),
            ("limit", Some(self.limit.to_string())),
            ("after", self.after),
        ];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(asked.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let page = desk.get(config, &format!("/operator/v1/payments?{}", query.finish())).await?;
        output::print(self.format, &page, || table(&page, self.state.is_some() || self.flag.is_some()))?;
        if let Some(next) = page["next_after"].as_str()
            && !self.format.json
        {
            output::print_note(&format!("There are more: --after {next}"))?;
        }
        Ok(())
    }
}

fn table(page: &Value, is_chosen: bool) -> String {
    let rows: Vec<Vec<String>> = page["payments"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return if is_chosen {
            "No payments.".to_owned()
        } else {
            "No payments but completed and refunded ones, if any: --state lists them.".to_owned()
        };
    }
    let head = ["PAYMENT_ID", "MERCHANT_ID", "STATE", "REASON", "REFERENCE", "SINCE"];
    output::table(&head, &rows)
}

fn proposals(listed: &Value) -> String {
    let row = |proposal: &Value| {
        let mut row = ["proposal_id", "merchant_id", "payment_id", "proposed_by", "expires_at"]
            .map(|name| proposal[name].as_str().unwrap_or("-").to_owned())
            .to_vec();
        row[3] = person(proposal, "proposed_by");
        row.push(story::deed(proposal));
        row
    };
    let rows: Vec<Vec<String>> = listed["proposals"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return "Nothing waits for a second person.".to_owned();
    }
    output::table(&["PROPOSAL_ID", "MERCHANT_ID", "PAYMENT_ID", "PROPOSED_BY", "EXPIRES_AT", "WHAT"], &rows)
}

fn row(payment: &Value) -> Vec<String> {
    let empty = Map::new();
    let payment = payment.as_object().unwrap_or(&empty);
    let text = |name: &str| payment.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    // What blocks it says more than why it is where it is.
    let reason = if payment.get("blocked").is_some_and(Value::is_string) { "blocked" } else { "reason" };
    vec![
        text("payment_id"),
        text("merchant_id"),
        text("state"),
        text(reason),
        text("payin_reference"),
        text("changed_at").chars().take(19).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_overruled_by_the_provider_is_told() {
        for (outcome, status, is_fine) in [
            (Outcome::NotPaid, "refused", true),
            (Outcome::NotPaid, "given_up", true),
            (Outcome::NotPaid, "returned", true),
            (Outcome::NotPaid, "succeeded", false),
            (Outcome::NotPaid, "unknown", false),
            (Outcome::Paid, "succeeded", true),
        ] {
            let operations = json!([
                { "kind": "payout", "status": "refused" },
                { "kind": "payout", "status": status },
                { "kind": "conversion", "status": "succeeded" },
            ]);
            let told = overruled(outcome, &json!({ "state": "failed", "operations": operations }));
            assert_eq!(told.is_ok(), is_fine, "{outcome}, {status}: {told:?}");
        }
        assert!(overruled(Outcome::NotPaid, &json!({ "proposal_id": "…" })).is_ok(), "nothing is done yet");
    }
}
