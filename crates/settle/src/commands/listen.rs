//! `settle listen`: a receiver for an integrator's own machine. It needs no database and no settings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use settle_domain::webhook_secret::{SECRET_BYTES_MAX, WebhookSecret};
use settle_notify::guard::{Scheme, is_port_allowed};
use settle_wiring::config::{LISTEN_SECRET_VARIABLE, parse_duration};
use settle_wiring::system::SystemClock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::CommandError;
use crate::output::{self, OutputFormat};
use crate::receiver::{App, Arrival, Behaviour, Receiver};

#[derive(Debug, Args)]
pub(super) struct Listen {
    /// The webhook secret that notifications are signed with
    #[arg(long, env = LISTEN_SECRET_VARIABLE, hide_env_values = true)]
    secret: SecretString,
    /// The port of 127.0.0.1 to listen on; 0 picks a free one
    #[arg(long, default_value_t = 4000)]
    port: u16,
    /// Answer good notifications with this status, to see what Settle does then
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Wait before answering them, as in 15s or 1m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Pass good notifications on to your app, as they came, and answer as it does: a http URL
    #[arg(long, value_name = "URL", conflicts_with_all = ["status", "delay"])]
    forward_to: Option<App>,
    /// Print each notification as one JSON object on one line
    #[arg(long)]
    json: bool,
}

impl Listen {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let secret = WebhookSecret::parse(self.secret.expose_secret().to_owned());
        let secret = secret.map_err(|_| CommandError::Refused(bad_secret()))?;
        if self.port != 0 && !is_port_allowed(Scheme::Http, self.port) {
            return Err(CommandError::Refused(bad_port(self.port)));
        }
        let status = StatusCode::from_u16(self.status);
        let status = status.map_err(|fault| CommandError::Refused(format!("--status: {fault}")))?;
        let behaviour = Behaviour { status, delay: self.delay.unwrap_or_default() };
        let (_unchanged, behaviour) = watch::channel(behaviour);
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let receiver = Receiver::bind(self.port, &secret, behaviour, Arc::new(SystemClock)).await;
        let receiver = receiver.map_err(|fault| {
            let port = self.port;
            CommandError::Refused(format!("--port: cannot listen on 127.0.0.1:{port}: {fault}"))
        })?;
        let address = receiver.address()?;
        if self.forward_to.as_ref().is_some_and(|app| app.is_at(address)) {
            return Err(CommandError::Refused("--forward-to: is this listener itself".to_owned()));
        }
        output::print_note(&hint(address))?;
        let receiver = receiver.forwarding_to(self.forward_to);

        let format = OutputFormat { json: self.json };
        let (failed, mut failure) = mpsc::channel(1);
        let show = move |arrival: &Arrival| {
            if let Err(fault) = output::print(format, arrival, || arrival.to_string()) {
                // The first failure ends the command. The channel has no room for another, and needs none.
                let _ = failed.try_send(fault);
            }
        };
        let mut fault = None;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                first = failure.recv() => fault = first,
            }
        };
        let tally = receiver.run(show, stop).await;
        output::print_note(&tally.to_string())?;
        fault.map_or(Ok(()), |fault| Err(fault.into()))
    }
}

fn bad_secret() -> String {
    format!(
        "--secret or {LISTEN_SECRET_VARIABLE}: a webhook secret is 1 to {SECRET_BYTES_MAX} bytes, \
         without control characters"
    )
}

fn bad_port(port: u16) -> String {
    format!("--port: Settle sends nothing to port {port}; take one from 1024 up that browsers do not refuse")
}

/// How to make a Settle on this machine send here. It does not repeat the secret.
fn hint(address: SocketAddr) -> String {
    format!(
        r#"Listening on http://{address}, on every path. Ctrl-C ends it.
Let a Settle on this machine send here, with an API key in SETTLE_KEY and the secret in {LISTEN_SECRET_VARIABLE}:
  SETTLE_WEBHOOK__ALLOW_HTTP=true SETTLE_WEBHOOK__ALLOW_NETWORKS=127.0.0.0/8 settle serve
  curl -X PUT http://127.0.0.1:8080/v1/webhook -H "Authorization: Bearer $SETTLE_KEY" -H "Content-Type: application/json" -d '{{"webhook_url":"http://{address}/","webhook_secret":"'"${LISTEN_SECRET_VARIABLE}"'"}}'
  curl -X POST http://127.0.0.1:8080/v1/webhook/test -H "Authorization: Bearer $SETTLE_KEY""#
    )
}
