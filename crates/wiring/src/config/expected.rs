//! What each setting expects, in words and with an example, for the error about a value that does not fit.

use figment::value::Value;

use super::providers;
use super::text::parse_pause;

/// Settings whose value no error repeats: it is secret or may hold a password.
const SECRETS: [&str; 3] = ["database_url", "master_key", "alerts.url"];
/// Numbers that may be zero.
const MAY_BE_ZERO: [&str; 2] = ["api.requests_per_second", "api.wrong_credentials_per_second"];

/// Why a value does not fit: `"soon" is not a duration, such as 10s, 5m or 1h`.
pub(super) fn refusal(key: &str, default: &Value, found: Option<&str>) -> String {
    let expected = expected(key, default);
    match found.filter(|_| !SECRETS.contains(&key) && !providers::is_secret(key)) {
        Some(found) => format!("{found:?} is not {expected}"),
        None => format!("must be {expected}"),
    }
}

fn expected(key: &str, default: &Value) -> String {
    match default {
        Value::Num(_, number) => {
            let least = u8::from(!MAY_BE_ZERO.contains(&key));
            let example = number.to_i128().unwrap_or_default();
            format!("a whole number from {least} to {}, such as {example}", u32::MAX)
        }
        Value::Bool(..) => "true or false".to_owned(),
        Value::String(_, text) if parse_pause(text).is_ok() => "a duration, such as 10s, 5m or 1h".to_owned(),
        _ => text_expected(key).to_owned(),
    }
}

fn text_expected(key: &str) -> &'static str {
    match key {
        "api.listen" | "operator.listen" => "an address and a port, such as 127.0.0.1:8080 or [::1]:8080",
        "webhook.allow_networks" | "api.trusted_proxies" => {
            "a list of networks, such as 127.0.0.0/8,10.0.0.0/8"
        }
        "webhook.nameservers" => "a list of addresses and ports, such as 1.1.1.1:53,[2606:4700::1111]:53",
        "log.format" => "auto, text or json",
        "log.level" => "a level or a list of module=level, such as info or info,settle_api=debug",
        "alerts.url" => "a http or https URL with a host, such as https://alerts.example/hook",
        _ => "text in quotes",
    }
}
