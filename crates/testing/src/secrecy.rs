//! What merchants never see: the names of what operators earn. The tests' client checks every answer to a
//! merchant.

/// Names of fields that no byte for a merchant may contain.
const INTERNAL_NAMES: [&str; 9] = [
    "provider_rate",
    "spread",
    "\"partner\"",
    "commission",
    "pricing",
    "bought",
    "buy_amount",
    "sell_amount",
    "unchecked",
];

/// The internal names that a text contains, in any case.
#[must_use]
pub fn internal_names_in(text: &str) -> Vec<&'static str> {
    let text = text.to_ascii_lowercase();
    INTERNAL_NAMES.into_iter().filter(|name| text.contains(name)).collect()
}
