//! Tells a payment as a person would: where the money is, how the amount came about, what happened, and what
//! can be done about it.

use serde_json::Value;

use crate::commands::desk::person;

#[cfg(test)]
mod tests;

/// The whole story, or of a proposal who must approve it.
pub(super) fn told(shown: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(proposal) = shown["proposal_id"].as_str() {
        return format!(
            "{}\nThis needs a second person. Proposal {proposal} waits for another operator until {}: settle payment \
             approve {proposal}",
            proposed(shown),
            text(shown, "expires_at")
        );
    }
    parts.push(heading(shown));
    if let Some(amounts) = explained(shown) {
        parts.push(amounts);
    }
    parts.push(section("What happened", list(shown, "timeline").iter().map(|step| line(shown, step))));
    let operations = list(shown, "operations");
    if !operations.is_empty() {
        parts.push(section("What was asked of providers", operations.iter().map(operation)));
    }
    parts.push(section("What to do", remedies(shown).into_iter()));
    parts.join("\n\n")
}

/// Who proposes what for which payment.
pub(super) fn proposed(proposal: &Value) -> String {
    format!(
        "{} proposes for payment {} at version {}: {}",
        person(proposal, "proposed_by"),
        text(proposal, "payment_id"),
        proposal["version"],
        deed(proposal)
    )
}

/// What a proposal wants to do, in one line.
pub(super) fn deed(proposal: &Value) -> String {
    let of = |name: &str, before: &str| {
        proposal[name].as_str().map_or_else(String::new, |told| format!("{before} {told}"))
    };
    let evidence = text(proposal, "evidence").replace('\n', " ");
    [
        text(proposal, "act").to_owned(),
        of("destination_reference", " to"),
        of("amount", ", moved"),
        of("provider_reference", ", known there as"),
        format!(": {evidence}"),
    ]
    .concat()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> String {
    std::iter::once(title.to_owned())
        .chain(lines.map(|line| format!("  {line}")))
        .collect::<Vec<_>>()
        .join("\n")
}

fn heading(shown: &Value) -> String {
    let why = match (shown["blocked"].as_str(), shown["reason"].as_str()) {
        (Some(blocked), _) => format!(", blocked: {blocked}"),
        (None, Some(reason @ "payout_outcome_unknown")) if is_refund(shown) => {
            format!(", because {reason} (of the refund)")
        }
        (None, Some(reason)) => format!(", because {reason}"),
        (None, None) => String::new(),
    };
    let out = shown["outgoing_amount"].as_str().map_or_else(
        || text(shown, "outgoing_currency").to_owned(),
        |amount| format!("{amount} {}", text(shown, "outgoing_currency")),
    );
    [
        format!("Payment   {}, version {}", text(shown, "payment_id"), shown["version"]),
        format!("Merchant  {}", text(shown, "merchant_id")),
        format!("Pay-in    {} at {}", text(shown, "payin_reference"), text(shown, "payin_source")),
        format!(
            "Amounts   {} {} in, {out} out to {}",
            text(shown, "incoming_amount"),
            text(shown, "incoming_currency"),
            text(shown, "destination_reference")
        ),
        format!("State     {}{why}", text(shown, "state")),
        format!("Money     {}", place_of_money(shown)),
    ]
    .join("\n")
}

/// Where the money is: by the state, and by what moved without the payment.
fn place_of_money(shown: &Value) -> String {
    let late = Late::of(shown).filter(|late| late.moved);
    let is_otherwise = late.is_some() || deviates(shown);
    let place = match (text(shown, "state"), is_otherwise) {
        ("received" | "quoted", _) => "on our incoming account",
        ("converting", _) => "in flight at the provider, being converted",
        ("converted", _) => "on our outgoing account, reserved for this payment",
        ("paying_out", _) => "in flight to the merchant",
        ("completed", _) if has_come_back(shown) => "back with us: the merchant does not have it",
        ("completed", _) => "with the merchant",
        ("failed", _) => "with us",
        ("refunding", _) => "in flight back to the payer",
        ("refunded", _) if has_come_back(shown) => "back with us: the payer does not have it",
        ("refunded", _) => "back at the payer",
        (_, true) => "not where it should be: nothing more is sent until a person decides",
        _ => "not known: nothing more is sent until it is",
    };
    match late.map(|late| late.kind) {
        Some("conversion") => format!("{place}; a conversion was made beside it, for the house"),
        Some(kind) => format!("{place}; what a {kind} moved after all is astray"),
        None => place.to_owned(),
    }
}

/// Whether the money came back after the end, as its provider or an operator said.
fn has_come_back(shown: &Value) -> bool {
    shown["returned"] == true
}

/// What moved, or may move, after the payment had gone on without it.
#[derive(Clone, Copy)]
struct Late<'a> {
    kind: &'a str,
    moved: bool,
}

impl<'a> Late<'a> {
    fn of(shown: &'a Value) -> Option<Late<'a>> {
        let kind = shown["late"]["kind"].as_str()?;
        Some(Late { kind, moved: shown["late"]["moved"] == true })
    }

    /// What an operator does about it.
    fn remedy(self, shown: &Value, which: &str) -> Option<String> {
        let Late { kind, moved } = self;
        let told = match (text(shown, "state"), moved) {
            ("completed" | "refunded", true) => format!(
                "money is astray: the {kind} was made after the payment had gone on without it. Get it back from \
                 whoever has it;\n  nothing more is sent for this payment"
            ),
            ("completed" | "refunded", false) if deviates(shown) => format!(
                "a {kind} that the payment went on without was made, and not as asked: agree with the provider how it is \
                 made good;\n  nothing more is sent for this payment"
            ),
            ("completed" | "refunded", false) => format!(
                "nothing yet: a {kind} that the payment went on without may still be made. The engine looks it up, and \
                 alerts you if it is"
            ),
            ("needs_review", _) => {
                let (done, not_done) = match kind {
                    "conversion" => ("converted", "not_converted"),
                    "refund" => ("refunded", "not_refunded"),
                    _ => ("paid", "not_paid"),
                };
                let may = if moved { "was" } else { "may be" };
                format!(
                    "a {kind} that the payment went on without {may} made after all: ask the provider, then settle payment \
                     resolve {which}\n  --outcome {done} if it is this payment's own, or {not_done} if it came back"
                )
            }
            _ => return None,
        };
        Some(told)
    }
}

/// How the outgoing amount came about, line by line.
fn explained(shown: &Value) -> Option<String> {
    let (rate, amount) = (shown["conversion_rate"].as_str()?, shown["outgoing_amount"].as_str()?);
    let (incoming, outgoing) = (text(shown, "incoming_currency"), text(shown, "outgoing_currency"));
    let mut lines = vec![
        format!("  {} {incoming} came in", text(shown, "incoming_amount")),
        format!("÷ {rate} {incoming} for each {outgoing}, rounded down to the unit"),
        format!(
            "− {} {outgoing}, a fee of {} %",
            text(shown, "fee_percentage_amount"),
            text(shown, "fee_percentage")
        ),
        format!("− {} {outgoing}, the fixed fee", text(shown, "fee_fixed")),
        format!("= {amount} {outgoing} for the merchant"),
    ];
    if shown["fixed_side"] == "outgoing" {
        lines.push("  The outgoing amount was fixed: the rate and the fees fit it.".to_owned());
    }
    let quote = &shown["quote"];
    if quote.is_object() {
        let rate = quote["rate"].as_str().map_or_else(String::new, |rate| format!(" (rate {rate})"));
        lines.push(format!(
            "  Internal: {}'s quote {}, {} {outgoing} for {} {incoming}{rate}, bound until {}.",
            text(shown, "provider"),
            text(quote, "quote_id"),
            text(quote, "buy_amount"),
            text(quote, "sell_amount"),
            text(quote, "expires_at")
        ));
    }
    if let Some(pricing) = shown["pricing"].as_object() {
        let figure = |name: &str| pricing.get(name).and_then(Value::as_str).unwrap_or("0");
        lines.push(format!(
            "  Internal: {} {outgoing} were bought; fees {}, spread {}, commission {}.",
            figure("bought"),
            figure("fees"),
            figure("spread"),
            figure("commission")
        ));
        if figure("shortfall").bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
            lines.push(format!("  The house added {} {outgoing}.", figure("shortfall")));
        }
    }
    Some(section("How the amount came about", lines.into_iter()))
}

/// One line of the timeline.
fn line(shown: &Value, step: &Value) -> String {
    let at: String = text(step, "at").chars().take(19).collect();
    let by = match text(step, "by") {
        "engine" => String::new(),
        _ => format!(" ({})", person(step, "by")),
    };
    let note = step["note"].as_str().map_or_else(String::new, |note| format!(": {note}"));
    format!("{at}  {}{by}{note}", happened(shown, step))
}

/// True of merchants with a webhook and without one.
const COMPLETED: &str =
    "the payout was made; the settlement was recorded, with a notification if the merchant has a webhook";

fn happened(shown: &Value, step: &Value) -> String {
    let reason = step["reason"].as_str();
    let because = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let (from, to) = (step["from"].as_str(), text(step, "to"));
    if moved_late(step) {
        return format!(
            "an operation was made after the payment had gone on without it{because}; nothing more is sent"
        );
    }
    match (from, to) {
        (None, _) => {
            format!("{} {} came in", text(shown, "incoming_amount"), text(shown, "incoming_currency"))
        }
        (_, "quoted") => "the provider's quote was taken; rate, fees and amounts are frozen".to_owned(),
        (Some("quoted" | "converting"), "received") => {
            format!("the quote had expired{because}; a new one is asked for")
        }
        (_, "received") => "it starts again".to_owned(),
        (Some(from), to) if from == to => match to {
            "converting" => format!("the conversion stays in flight{because}"),
            "paying_out" => format!("the payout stays in flight{because}"),
            "refunding" => format!("the refund stays in flight{because}"),
            _ => format!("it stays {to}{because}"),
        },
        (_, "converting") => "the conversion was prepared and sent".to_owned(),
        (Some("needs_review"), "converted") if !list(step, "postings").is_empty() => {
            "it turned out that the conversion was done".to_owned()
        }
        (Some("needs_review"), "converted") => "the payout is made ready again".to_owned(),
        (Some("failed"), "converted") => "the payout is tried again".to_owned(),
        (_, "converted") => "the conversion was done; what was bought is reserved".to_owned(),
        (_, "paying_out") => "the payout was prepared and sent".to_owned(),
        (Some("needs_review"), "completed") => format!("it turned out that {COMPLETED}"),
        (_, "completed") => COMPLETED.to_owned(),
        (Some("received" | "quoted" | "converted"), "failed") if text(step, "by") != "engine" => {
            "it was cancelled; we hold the money".to_owned()
        }
        (Some("refunding"), "failed") => format!("the refund failed{because}; we hold the money"),
        (_, "failed") => format!("it failed{because}; we hold the money"),
        (_, "refunding") => "the refund was prepared".to_owned(),
        (_, "refunded") => "the payer has the money back".to_owned(),
        // The engine remarks what the provider says that it did.
        (_, "needs_review") if step["by"] == "engine" && step["note"].is_string() => {
            format!("not what was asked was done{because}; a person must decide, nothing more is sent")
        }
        (from, "needs_review") => {
            let what = match from {
                Some("converting") => "the conversion",
                Some("paying_out") => "the payout",
                Some("refunding") => "the refund",
                _ => "it",
            };
            format!("nobody knows what became of {what}{because}; nothing more is sent, look-ups go on")
        }
        (_, to) => format!("it became {to}{because}"),
    }
}

/// Whether the step books what moved after the payment had gone on without it.
fn moved_late(step: &Value) -> bool {
    let stops = step["to"] == "needs_review" || step["from"] == step["to"];
    let postings = list(step, "postings");
    let touches = |account: &str| postings.iter().any(|posting| posting["account"] == account);
    let is_astray =
        |posting: &Value| posting["account"] == "astray" && !text(posting, "amount").starts_with('-');
    // A refund that is given up moves the inventory too, and sells nothing.
    stops && (touches("inventory") && touches("exchange") || postings.iter().any(is_astray))
}

/// Whether the provider says of something that is not ended that it did not do what it was asked.
fn deviates(shown: &Value) -> bool {
    let is_open = |operation: &Value| operation["status"] == "unknown";
    list(shown, "operations").iter().any(|known| is_open(known) && known["deviation"].is_string())
}

fn operation(operation: &Value) -> String {
    let deviation = operation["deviation"].as_str().map_or_else(String::new, |said| format!(": {said}"));
    format!(
        "{} {}: {} by {}, {} there, operation {}{deviation}",
        text(operation, "kind"),
        operation["attempt"],
        text(operation, "status"),
        text(operation, "provider"),
        operation["provider_reference"].as_str().unwrap_or("no name"),
        text(operation, "operation_id")
    )
}

/// What stands in its way, and what an operator does about it now.
fn remedies(shown: &Value) -> Vec<String> {
    match shown["obstacle"].as_str() {
        Some(obstacle) if text(shown, "state") == "needs_review" => {
            vec![remedy(shown), format!("{obstacle}; then look-ups go on")]
        }
        Some(obstacle) => vec![format!("{obstacle}; then it goes on by itself")],
        None => vec![remedy(shown)],
    }
}

fn remedy(shown: &Value) -> String {
    let which = format!(
        "{} {} --version {} --evidence WHY",
        text(shown, "merchant_id"),
        text(shown, "payment_id"),
        shown["version"]
    );
    if let Some(told) = Late::of(shown).and_then(|late| late.remedy(shown, &which)) {
        return told;
    }
    match (text(shown, "state"), shown["reason"].as_str(), shown["blocked"].as_str()) {
        ("completed", ..) if has_come_back(shown) => {
            "the money came back: find out why, and pay it with a new payment".to_owned()
        }
        ("refunded", ..) if has_come_back(shown) => {
            "the refund came back: find out why, and pay it back outside of this service".to_owned()
        }
        ("completed", ..) => {
            "nothing: the merchant has it. If it comes back: settle payment returned …".to_owned()
        }
        ("refunded", ..) => "nothing: the payer has it back".to_owned(),
        ("failed", ..) => stopped(&which),
        ("needs_review", ..) => reviewed(shown, &which),
        (_, _, Some("payout_wallet_out_of_gas")) => {
            "fill the provider's wallet: it goes on by itself".to_owned()
        }
        (_, _, Some("provider_call_failed")) => {
            "the provider turns us away: check its URL and secret; it goes on by itself".to_owned()
        }
        (_, _, Some(_)) => {
            "nothing: the engine tries again by itself, and alerts if it takes too long".to_owned()
        }
        (_, Some(reason), _) if reason.ends_with("_outcome_unknown") => looked_up(shown, &which),
        _ => "nothing: the engine is at it".to_owned(),
    }
}

/// Of a payment that we hold the money of, and that only a person leads on.
fn stopped(which: &str) -> String {
    format!(
        "mend the cause, then settle payment retry {which}\n  or pay it back: settle payment refund {which}"
    )
}

/// Of a payment whose provider may still tell what became of it.
fn looked_up(shown: &Value, which: &str) -> String {
    let waits = "nothing: the engine looks it up until the provider tells".to_owned();
    let offers = offers(shown);
    if offers.is_empty() {
        return waits;
    }
    format!("{waits}. If you know it already: settle payment resolve {which} {}", offers.join("\n  or "))
}

/// Of a payment that needs review: what its state allows to say.
fn reviewed(shown: &Value, which: &str) -> String {
    let operation = match outcomes(shown).next() {
        Some("converted" | "not_converted") => "conversion",
        Some("paid" | "not_paid") => "payout",
        Some(_) => "refund",
        None if list(shown, "allowed_acts").is_empty() => {
            return "nothing: the provider is at it, and its word comes; the engine looks it up".to_owned();
        }
        None => return stopped(which),
    };
    let offers = offers(shown);
    if operation != "conversion"
        && deviates(shown)
        && let [done, not_done] = &offers[..]
    {
        return format!(
            "agree with the provider how it is made good. Once who should have it has the whole amount: settle payment \
             resolve {which} {done}\n  or, once the provider says that it came back, {not_done}"
        );
    }
    let offers = offers.join("\n  or ");
    format!("ask the provider what became of the {operation}, then settle payment resolve {which} {offers}")
}

/// What `settle payment resolve` may be given.
fn offers(shown: &Value) -> Vec<String> {
    let offer = |outcome: &str| match outcome {
        "converted" => "--outcome converted --amount BOUGHT".to_owned(),
        outcome => format!("--outcome {outcome}"),
    };
    outcomes(shown).map(offer).collect()
}

/// The outcomes that the payment's state allows to resolve it with.
fn outcomes(shown: &Value) -> impl Iterator<Item = &str> {
    let acts = list(shown, "allowed_acts").iter().filter_map(Value::as_str);
    acts.filter_map(|act| act.strip_prefix("resolve_"))
}

/// Whether a refund is what nobody knows the outcome of.
fn is_refund(shown: &Value) -> bool {
    text(shown, "state") == "refunding" || outcomes(shown).any(|outcome| outcome == "not_refunded")
}
