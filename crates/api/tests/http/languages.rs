//! `error.message` is in the caller's language; `error.code` is the same in all.

use serde_json::Value;

use crate::service::{Service, Setup};

on_both_stores! {
    every_language_says_what_the_table_of_codes_says,
    the_language_is_looked_up_by_weight,
    several_headers_count_as_one,
    the_code_is_the_same_in_every_language,
    a_success_has_no_language,
    errors_outside_of_operations_are_translated_too,
}

/// The message of a code in a language, from the table of codes.
fn message(code: &str, language: &str) -> String {
    let table: Value = serde_json::from_str(include_str!("../../../domain/tests/data/error_codes.json"))
        .expect("error_codes.json is JSON");
    let rows = table["codes"].as_array().expect("codes");
    let row = rows.iter().find(|row| row["code"] == code).expect("the code is in the table");
    row["messages"][language].as_str().expect("a message").to_owned()
}

/// Sends a request without a key, with the given languages.
async fn refused(service: &Service, path: &str, accept: &str) -> (String, Value) {
    let answer = service.ask("GET", path).header("accept-language", accept).send().await;
    (answer.header("content-language").unwrap().to_owned(), answer.json()["error"].clone())
}

/// Error envelope row `message`: en, pt-BR, es, de; English by default.
async fn every_language_says_what_the_table_of_codes_says(setup: Setup) {
    let service = setup.start().await;
    let cases = [("/v1/webhook", "invalid_credentials"), ("/v1/nothing", "not_found")];
    for (path, code) in cases {
        for language in ["en", "pt-BR", "es", "de"] {
            let (tag, error) = refused(&service, path, language).await;
            assert_eq!((tag.as_str(), &error["code"]), (language, &Value::from(code)));
            assert_eq!(error["message"], message(code, language));
        }
        let answer = service.ask("GET", path).send().await;
        assert_eq!(answer.header("content-language"), Some("en"));
        assert_eq!(answer.json()["error"]["message"], message(code, "en"));
    }
}

async fn the_language_is_looked_up_by_weight(setup: Setup) {
    let service = setup.start().await;
    for (accept, language) in [
        ("", "en"),
        ("*", "en"),
        ("fr", "en"),
        ("fr-CA, it;q=0.9", "en"),
        (";;,q=,,", "en"),
        ("not a language", "en"),
        ("de-AT", "de"),
        ("DE", "de"),
        ("pt", "pt-BR"),
        ("pt-PT", "pt-BR"),
        ("es-419", "es"),
        ("fr, de;q=0.3", "de"),
        ("en;q=0.2, es;q=0.8, de;q=0.5", "es"),
        ("de;q=0, es;q=0.001", "es"),
        ("de;q=0", "en"),
        ("es;q=0.5, de;q=0.5", "es"),
        ("de;q=2, es;q=0.1", "es"),
    ] {
        let (tag, error) = refused(&service, "/v1/webhook", accept).await;
        assert_eq!(tag, language, "{accept}");
        assert_eq!(error["message"], message("invalid_credentials", language), "{accept}");
    }
    let long = "de,".repeat(5_000);
    assert_eq!(refused(&service, "/v1/webhook", &long).await.0, "en", "a header without end counts as none");
    let bytes = service.ask("GET", "/v1/webhook").header_bytes("accept-language", b"de\xff");
    assert_eq!(bytes.send().await.header("content-language"), Some("en"));
}

async fn several_headers_count_as_one(setup: Setup) {
    let service = setup.start().await;
    let ask = service.ask("GET", "/v1/webhook");
    let ask = ask.header("accept-language", "es;q=0.1").header("accept-language", "de;q=0.9");
    assert_eq!(ask.send().await.header("content-language"), Some("de"));
}

/// Error envelope row `code`: "identical across languages".
async fn the_code_is_the_same_in_every_language(setup: Setup) {
    let merchant = setup.merchant().await;
    for language in ["en", "pt-BR", "es", "de"] {
        let ask = merchant.ask("GET", "/v1/settlements?limit=0").header("accept-language", language);
        let answer = ask.send().await;
        answer.invalid_fields(&[("limit", "validation_failed")]);
        assert_eq!(answer.json()["error"]["message"], message("validation_failed", language));
    }
}

async fn a_success_has_no_language(setup: Setup) {
    let merchant = setup.merchant().await;
    let answer = merchant.ask("GET", "/v1/webhook").header("accept-language", "de").send().await;
    answer.ok();
    assert_eq!(answer.header("content-language"), None);
}

async fn errors_outside_of_operations_are_translated_too(setup: Setup) {
    let merchant = setup.merchant().await;
    for (method, path) in [("DELETE", "/v1/webhook"), ("GET", "/nowhere"), ("POST", "/openapi.json")] {
        let answer = merchant.ask(method, path).header("accept-language", "de").send().await;
        assert_eq!(answer.header("content-language"), Some("de"), "{method} {path}");
        assert_eq!(answer.json()["error"]["message"], message("not_found", "de"));
    }
}
