//! Reading a JSON document that is one settlement or a list of them. The reader parses one element after the
//! other, so memory never holds the JSON tree of more than one.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::object::{UniqueKeys, UniqueKeysVisitor};
use super::{CompletedSettlement, ImportFault, parse};

/// The content of a document.
#[derive(Debug)]
pub struct Document {
    /// Whether it is a list; then messages number its elements.
    pub is_list: bool,
    /// Each settlement, or all its problems.
    pub settlements: Vec<Result<CompletedSettlement, Vec<ImportFault>>>,
    /// Elements beyond the limit: counted, but not read.
    pub surplus: usize,
}

/// Reads a document, and at most the given number of elements of a list. It fails on text that is not JSON,
/// on anything but an object or a list of objects, and on a repeated key.
pub fn parse_document(json: &[u8], settlements_max: usize) -> Result<Document, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let document = deserializer.deserialize_any(DocumentVisitor { settlements_max })?;
    deserializer.end()?;
    Ok(document)
}

struct DocumentVisitor {
    settlements_max: usize,
}

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Document, A::Error> {
        let UniqueKeys(object) = UniqueKeysVisitor.visit_map(entries)?;
        Ok(Document { is_list: false, settlements: vec![parse(&object)], surplus: 0 })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Document, A::Error> {
        let mut document = Document { is_list: true, settlements: Vec::new(), surplus: 0 };
        while document.settlements.len() < self.settlements_max {
            let Some(UniqueKeys(object)) = elements.next_element()? else {
                return Ok(document);
            };
            document.settlements.push(parse(&object));
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {
            document.surplus += 1;
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(reference: &str) -> String {
        serde_json::json!({
            "merchant_id": "0190d3c4-7c00-7000-8000-000000000001",
            "settlement_id": "0190d3c4-7c00-7000-8000-000000000002",
            "occurred_at": "2026-01-31T09:30:00Z",
            "payin_reference": reference,
            "destination_reference": "wallet",
            "incoming_currency": "BRL",
            "incoming_amount": "1000",
            "outgoing_currency": "USDC",
            "conversion_rate": "5.43",
            "fixed_side": "incoming",
            "fee_percentage": "1.5",
            "fee_fixed": "0.25",
            "pricing": { "provider_rate": "5.3", "spread_revenue": "1", "partner_commission": "0" },
        })
        .to_string()
    }

    fn references(document: &Document) -> Vec<&str> {
        let settlements = document.settlements.iter().map(|parsed| parsed.as_ref().unwrap());
        settlements.map(|completed| completed.settlement.payin_reference.as_str()).collect()
    }

    #[test]
    fn one_settlement_or_a_list_is_read() {
        let one = parse_document(format!(" {} ", good("a")).as_bytes(), 2).unwrap();
        assert_eq!((one.is_list, references(&one), one.surplus), (false, vec!["a"], 0));
        let pricing = one.settlements[0].as_ref().unwrap().pricing.as_ref().unwrap();
        assert_eq!(pricing.provider_rate, "5.3".parse().unwrap());
        let list = parse_document(format!("[{}, {}]", good("a"), good("b")).as_bytes(), 2).unwrap();
        assert_eq!((list.is_list, references(&list), list.surplus), (true, vec!["a", "b"], 0));
        let none = parse_document(b"[]", 2).unwrap();
        assert_eq!((none.is_list, references(&none), none.surplus), (true, vec![], 0));
    }

    #[test]
    fn what_is_too_much_is_counted_and_not_read() {
        let json = format!("[{}, {{}}, 7, {{}}]", good("a"));
        let list = parse_document(json.as_bytes(), 1).unwrap();
        assert_eq!((references(&list), list.surplus), (vec!["a"], 3));
        assert!(parse_document(format!("[{}, {{]", good("a")).as_bytes(), 1).is_err(), "not JSON to its end");
    }

    #[test]
    fn every_problem_is_found_in_its_element() {
        let json = format!(r#"[{}, {{"merchant_id": 7, "x": 1}}]"#, good("a"));
        let list = parse_document(json.as_bytes(), 2).unwrap();
        assert!(list.settlements[0].is_ok());
        let problems = list.settlements[1].as_ref().unwrap_err();
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts[..2], ["x: is not a field of a settlement", "merchant_id: must be a string"]);
    }

    #[test]
    fn what_is_neither_an_object_nor_a_list_of_objects_cannot_be_read() {
        for json in
            ["", "1", "\"{}\"", "null", "true", "[1]", "[[]]", "[null]", "{", "[{}", "{} {}", "[] 1", "[{},]"]
        {
            assert!(parse_document(json.as_bytes(), 2).is_err(), "{json}");
        }
        assert!(parse_document(b"{\"a\": \"\xff\"}", 2).is_err(), "not UTF-8");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(parse_document(deep.as_bytes(), 2).is_err(), "deeper than anybody needs");
        for twice in [r#"{"a": 1, "a": 1}"#, r#"[{"a": 1, "a": 1}]"#] {
            assert!(parse_document(twice.as_bytes(), 2).is_err(), "{twice}");
        }
    }
}
