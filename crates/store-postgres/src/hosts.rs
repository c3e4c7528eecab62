//! The servers that a URL names, and which of them accepts writes.
//!
//! A URL may name several: `postgres://user@a:5432,b:5432/database?target_session_attrs=read-write`. One of
//! them accepts writes; the others follow it, and one of those is promoted when it fails. The store connects
//! to the one that accepted writes last. When that one refuses, all are asked at the same time, so that a
//! server that does not answer holds up nobody, and the first that accepts writes is taken. A server that is
//! silent is given up after a while: sqlx itself would wait for it without end.
//!
//! With one host nothing is asked of it but the connection.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_ok;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Error, PgConnection};

use crate::UrlFault;
use crate::manners::limited;

/// How long one of several servers may take to connect and to say whether it accepts writes. Who has a
/// shorter limit of his own, as requests have, gives up earlier.
const HOST_LIMIT: Duration = Duration::from_secs(5);
/// The parameter that asks for a server that accepts writes, and what it may say: the store needs no other.
const ATTRIBUTES: &str = "target_session_attrs";
const ATTRIBUTES_KNOWN: [&str; 3] = ["any", "read-write", "primary"];

settle_store::statements! {
    cold "when a connection is made and there are several servers" IS_STANDBY = "SELECT pg_is_in_recovery()";
}

/// The servers of a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosts {
    hosts: Vec<PgConnectOptions>,
    /// The one that accepted writes last.
    preferred: Arc<Mutex<Option<usize>>>,
}

impl Hosts {
    /// The servers that the URL names.
    pub(crate) fn parse(url: &str) -> Result<Hosts, UrlFault> {
        // The parser's message may repeat the password.
        let parse = |url: String| PgConnectOptions::from_str(&url).map_err(|_| UrlFault);
        let hosts = urls(url)?.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Hosts { hosts, preferred: Arc::default() })
    }

    /// The same servers, with other options.
    pub(crate) fn map(self, change: impl Fn(PgConnectOptions) -> PgConnectOptions) -> Hosts {
        Hosts { hosts: self.hosts.into_iter().map(change).collect(), preferred: self.preferred }
    }

    /// A connection to the server that accepts writes.
    pub(crate) async fn connect(&self) -> Result<PgConnection, Error> {
        if let [only] = self.hosts.as_slice() {
            return only.connect().await;
        }
        if let Some(position) = self.preferred() {
            // Forgotten until it answers: who is cut off while he waits for it does not ask it again.
            self.prefer(None);
            if let Ok(connection) = self.connect_to(position).boxed().await {
                return Ok(connection);
            }
        }
        let all = (0..self.hosts.len()).map(|position| self.connect_to(position).boxed());
        let (connection, _) = select_ok(all).await?;
        Ok(connection)
    }

    /// How to connect to the server that accepts writes.
    pub(crate) async fn writable(&self) -> Result<PgConnectOptions, Error> {
        if self.hosts.len() > 1 {
            drop(self.connect().await?);
        }
        let position = self.preferred().unwrap_or(0);
        self.hosts.get(position).cloned().ok_or_else(no_host)
    }

    /// The server that accepted writes does so no more.
    pub(crate) fn forget(&self) {
        self.prefer(None);
    }

    async fn connect_to(&self, position: usize) -> Result<PgConnection, Error> {
        let host = self.hosts.get(position).ok_or_else(no_host)?;
        limited(HOST_LIMIT, async {
            let mut connection = host.connect().await?;
            if sqlx::query_scalar(IS_STANDBY).fetch_one(&mut connection).await? {
                return Err(no_host());
            }
            self.prefer(Some(position));
            Ok(connection)
        })
        .await
    }

    fn preferred(&self) -> Option<usize> {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prefer(&self, position: Option<usize>) {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner) = position;
    }
}

fn no_host() -> Error {
    Error::Io(std::io::Error::other("no server of the URL accepts writes"))
}

/// A URL for each host that a URL names, without what only several hosts need.
fn urls(url: &str) -> Result<Vec<String>, UrlFault> {
    let (scheme, rest) = url.split_once("://").ok_or(UrlFault)?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if authority.contains('@') { "@" } else { "" };
    let path = without_attributes(path)?;
    Ok(hosts.split(',').map(|host| format!("{scheme}://{user}{at}{host}{path}")).collect())
}

fn without_attributes(path: &str) -> Result<String, UrlFault> {
    let Some((path, parameters)) = path.split_once('?') else { return Ok(path.to_owned()) };
    let mut kept = Vec::new();
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some((ATTRIBUTES, wanted)) if ATTRIBUTES_KNOWN.contains(&wanted) => {}
            Some((ATTRIBUTES, _)) => return Err(UrlFault),
            _ => kept.push(parameter),
        }
    }
    Ok(if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) })
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_url_of_its_own() {
        let url = "postgres://ada:p,w@a:1,b:2/settle?target_session_attrs=read-write&sslmode=disable";
        let expected = ["a:1", "b:2"].map(|host| format!("postgres://ada:p,w@{host}/settle?sslmode=disable"));
        assert_eq!(urls(url).unwrap(), expected);
        let url = "postgres://a,b/settle?target_session_attrs=primary";
        assert_eq!(urls(url).unwrap(), ["postgres://a/settle", "postgres://b/settle"]);
        for url in ["postgres://ada@h/settle", "postgres://h?options[search_path]=x", "postgresql://h:5/d"] {
            assert_eq!(urls(url).unwrap(), [url]);
        }
    }

    #[test]
    fn servers_that_do_not_accept_writes_are_no_use() {
        assert!(urls("postgres://a,b/settle?target_session_attrs=prefer-standby").is_err());
        assert!(Hosts::parse("postgres://a:1,b:nothing/settle").is_err());
    }
}
