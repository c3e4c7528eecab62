//! The codes, their statuses and levels match the contract exactly.

use serde_json::Value;
use settle_domain::error_code::{ErrorCode, Level};

#[test]
fn every_code_has_the_status_and_level_of_the_contract() {
    let contract: Value = serde_json::from_str(include_str!("../data/error_codes.json")).unwrap();
    let expected: Vec<(String, u64, String)> = contract["codes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            (text("code"), row["http"].as_u64().unwrap(), text("level"))
        })
        .collect();
    let actual: Vec<(String, u64, String)> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let level = match code.level() {
                Level::Top => "top",
                Level::Field => "field",
                Level::Both => "both",
            };
            (code.as_str().to_owned(), u64::from(code.status()), level.to_owned())
        })
        .collect();
    assert_eq!(actual, expected);
    assert_eq!(actual.len(), 47);
}
