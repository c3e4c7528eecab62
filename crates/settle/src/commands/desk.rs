//! The operator API as commands call it, so that what they do is somebody's act.
//!
//! Plain HTTP, as the operator's listener speaks: from another machine an operator reaches it through a
//! tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use axum::http::{Method, StatusCode, Uri};
use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use settle_wiring::config::{Config, OPERATOR_TOKEN_VARIABLE, OPERATOR_URL_VARIABLE};

use super::CommandError;
use crate::exchange::ask;

/// How long an answer may take: a resolution asks the provider first.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Which operator's listener, and who asks.
#[derive(Debug, Args)]
pub(super) struct Desk {
    /// The operator's listener, such as <http://127.0.0.1:8081> [default: operator.listen of the settings]
    #[arg(long, env = OPERATOR_URL_VARIABLE, value_name = "URL", hide_env_values = true, global = true)]
    operator_url: Option<Uri>,
    /// An operator's token; better given in the environment
    #[arg(long, env = OPERATOR_TOKEN_VARIABLE, value_name = "TOKEN", hide_env_values = true, global = true)]
    operator_token: Option<SecretString>,
}

impl Desk {
    /// Asks for something.
    pub(super) async fn get(&self, config: &Config, path: &str) -> Result<Value, CommandError> {
        self.ask(config, Method::GET, path, None).await
    }

    /// Does something.
    pub(super) async fn post(
        &self,
        config: &Config,
        path: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        self.ask(config, Method::POST, path, Some(body)).await
    }

    /// Sets something.
    pub(super) async fn put(&self, config: &Config, path: &str, body: &Value) -> Result<Value, CommandError> {
        self.ask(config, Method::PUT, path, Some(body)).await
    }

    async fn ask(
        &self,
        config: &Config,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CommandError> {
        let (host, port) = self.place(config)?;
        let token = self.operator_token.as_ref().ok_or_else(|| {
            CommandError::Refused(format!(
                "{OPERATOR_TOKEN_VARIABLE} is not set: settle operator create NAME makes a token"
            ))
        })?;
        let limits = (ANSWER_TIMEOUT, ANSWER_BYTES_MAX);
        let asked = ask((&host, port), method, path, token.expose_secret(), body, limits).await;
        let (status, answer) = asked.map_err(|fault| {
            let place = format!("http://{host}:{port}");
            CommandError::Refused(format!(
                "the operator's listener at {place} does not answer: {fault}. Is the service up?"
            ))
        })?;
        let answer = answer.ok_or_else(|| {
            CommandError::Refused(format!("the answer, {status}, is not that of an operator's listener"))
        })?;
        if status.is_success() { Ok(answer) } else { Err(refusal(status, &answer)) }
    }

    /// Where the listener is. One that listens everywhere is asked on this machine.
    fn place(&self, config: &Config) -> Result<(String, u16), CommandError> {
        let Some(uri) = &self.operator_url else {
            let address = config.operator.listen;
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            return Ok((ip.to_string(), address.port()));
        };
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http"));
        let host = host.ok_or_else(|| {
            CommandError::Refused(format!("{uri} is not a http URL, such as http://127.0.0.1:8081"))
        })?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok((host, uri.port_u16().unwrap_or(80)))
    }
}

/// Who did something, of an answer: the name, if there is one, and the id.
pub(super) fn person(answer: &Value, field: &str) -> String {
    let id = answer[field].as_str().unwrap_or("-");
    match answer[format!("{field}_name")].as_str() {
        Some(name) => format!("{name}, {id}"),
        None => id.to_owned(),
    }
}

/// What the service refused, in its own words: the details, or else the message.
fn refusal(status: StatusCode, answer: &Value) -> CommandError {
    let error = &answer["error"];
    let code = error["code"].as_str().unwrap_or("no code");
    let details: Vec<&str> =
        error["details"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let words = if details.is_empty() {
        error["message"].as_str().unwrap_or_default().to_owned()
    } else {
        details.join("; ")
    };
    let hint = if status == StatusCode::UNAUTHORIZED {
        format!(
            ": {OPERATOR_TOKEN_VARIABLE} is not a token of this installation; settle operator create NAME makes one"
        )
    } else {
        String::new()
    };
    CommandError::Refused(format!("{words} ({code}, {}){hint}", status.as_u16()))
}
