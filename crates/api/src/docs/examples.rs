//! The samples that the page shows: answers, a notification, and how to check its signature.

use serde::Serialize;

/// A notification on many lines for people to read; the service sends it on one.
pub(super) const NOTIFICATION: &str = include_str!("examples/notification.json");

/// Code that checks a signature, in one language.
#[derive(Serialize)]
pub(super) struct Verifier {
    /// The language, as people write it.
    pub(super) label: &'static str,
    /// The language, as the page's markup knows it.
    pub(super) language: &'static str,
    /// The program.
    pub(super) text: &'static str,
}

/// The same receiver in every language, each written with the standard library alone.
pub(super) const VERIFIERS: [Verifier; 5] = [
    Verifier { label: "Python", language: "python", text: include_str!("verify.py") },
    Verifier { label: "Node", language: "js", text: include_str!("verify.mjs") },
    Verifier { label: "Go", language: "go", text: include_str!("verify.go") },
    Verifier { label: "PHP", language: "php", text: include_str!("verify.php") },
    Verifier { label: "Ruby", language: "ruby", text: include_str!("verify.rb") },
];

/// The sample answer for a schema. A test compares its keys with those of the schema.
pub(super) fn answer(schema: &str) -> Option<&'static str> {
    match schema {
        "SettlementPage" => Some(include_str!("examples/settlement_page.json")),
        "TestDeliveryResult" => Some(include_str!("examples/test_delivery_result.json")),
        "WebhookConfiguration" => Some(include_str!("examples/webhook_configuration.json")),
        "WebhookDelivery" => Some(include_str!("examples/webhook_delivery.json")),
        "WebhookDeliveryPage" => Some(include_str!("examples/webhook_delivery_page.json")),
        _ => None,
    }
}
