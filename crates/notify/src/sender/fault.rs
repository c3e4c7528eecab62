//! Why an attempt failed, in a few words that a merchant can act on; or why we could not make it.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::tls;

/// Why an attempt failed. Its text is the delivery's `last_error`; it never quotes a response's body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptFault {
    /// The response was not complete in time.
    #[error("timeout: no complete response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The URL is no longer valid: the rules may have become stricter since the merchant set it.
    #[error("invalid URL: the URL is not a well-formed https address")]
    InvalidUrl,
    /// The host has no address, or its name servers did not answer.
    #[error("DNS: the host has no address, or its name servers did not answer")]
    Dns,
    /// The host leads to an address that is not public.
    #[error("unsafe address: the host leads to an address that is not public")]
    UnsafeAddress,
    /// The connection could not be opened.
    #[error("connection: {}", connection(*.0))]
    Connect(io::ErrorKind),
    /// TLS failed, usually because of the certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection ended before the response did, or the response was not HTTP.
    #[error("connection: closed before a complete response, or the response was not HTTP")]
    Broken,
    /// The endpoint answered with another status than 2xx.
    #[error("answered with status {}{}", .0, redirect(*.0))]
    Status(u16),
}

/// Why an attempt could not be made, for a reason of ours. It says nothing about the endpoint, so it must not
/// count as an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// This process or this machine has no files or no memory left for a connection.
    #[error("we could not send: too many open files or too little memory on our side")]
    Resources,
    /// Our own name servers do not answer, whatever the name.
    #[error("we could not send: our name servers do not answer")]
    Resolver,
}

impl SendError {
    /// The cause, in one word: for metrics.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Resolver => "resolver",
        }
    }
}

/// The cause that metrics count when the other side has ended a kept connection under a request.
pub(super) const KEPT_CONNECTION: &str = "kept_connection";

/// Counts a fault of ours: it has cost time and no attempt.
pub(crate) fn count_fault(cause: &'static str) {
    debug_assert!(FAULT_CAUSES.contains(&cause), "{cause} has no zero");
    metrics::counter!("settle_delivery_faults_total", "cause" => cause).increment(1);
}

/// Why there is no response, and so who is to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The endpoint, its name or its network: the attempt counts.
    Theirs(AttemptFault),
    /// We: the attempt does not count.
    Ours(SendError),
}

impl Failure {
    /// The reason why a connection that was opened did not come to TLS.
    pub(super) fn of_handshake(fault: &io::Error) -> Failure {
        if let Some(error) = SendError::of(fault) {
            return Failure::Ours(error);
        }
        Failure::Theirs(match AttemptFault::of(fault) {
            AttemptFault::Broken => AttemptFault::Tls(tls::HANDSHAKE_CUT.to_owned()),
            fault => fault,
        })
    }

    /// The reason why an address took no connection.
    pub(super) fn of_connecting(fault: &io::Error) -> Failure {
        match SendError::of(fault) {
            Some(error) => Failure::Ours(error),
            None => Failure::Theirs(AttemptFault::Connect(fault.kind())),
        }
    }
}

impl SendError {
    fn of(fault: &io::Error) -> Option<SendError> {
        // No file, no memory, no port, no network, or nothing that may leave this machine: no endpoint says
        // so. An unreachable host or network may be a router's word.
        let ours = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::ADDRNOTAVAIL,
            Errno::NETDOWN,
            Errno::PERM,
            Errno::ACCESS,
        ];
        Errno::from_io_error(fault).filter(|number| ours.contains(number)).map(|_| SendError::Resources)
    }
}

fn redirect(status: u16) -> &'static str {
    if (300..400).contains(&status) { ": redirects are not followed" } else { "" }
}

fn connection(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::ConnectionRefused => "refused".to_owned(),
        io::ErrorKind::TimedOut => "timed out".to_owned(),
        kind => kind.to_string(),
    }
}

/// Every cause that a fault of ours is counted under.
pub const FAULT_CAUSES: [&str; 6] =
    ["resources", "resolver", KEPT_CONNECTION, "secret", "panic", "unreadable"];

impl AttemptFault {
    /// Every class.
    pub const CLASSES: [&str; 7] =
        ["timeout", "invalid_url", "dns", "unsafe_address", "connection", "tls", "status"];

    /// The kind of fault, in one word: for metrics.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::InvalidUrl => "invalid_url",
            Self::Dns => "dns",
            Self::UnsafeAddress => "unsafe_address",
            Self::Connect(_) | Self::Broken => "connection",
            Self::Tls(_) => "tls",
            Self::Status(_) => "status",
        }
    }

    /// Finds the reason in the HTTP client's error, however deep it is wrapped.
    pub(super) fn of(fault: &(dyn Error + 'static)) -> AttemptFault {
        let mut cause = Some(fault);
        while let Some(fault) = cause {
            if let Some(fault) = fault.downcast_ref::<AttemptFault>() {
                return fault.clone();
            }
            if let Some(fault) = fault.downcast_ref::<rustls::Error>() {
                return AttemptFault::Tls(tls::words(fault));
            }
            // An I/O error gives the error that it wraps through `get_ref`, not through `source`.
            let wrapped = fault.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause = wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| fault.source());
        }
        AttemptFault::Broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_fault_of_an_endpoint() {
        let is_ours = |number: Errno| {
            let fault = io::Error::from_raw_os_error(number.raw_os_error());
            matches!(Failure::of_connecting(&fault), Failure::Ours(_))
        };
        for ours in
            [Errno::MFILE, Errno::NOBUFS, Errno::ADDRNOTAVAIL, Errno::NETDOWN, Errno::PERM, Errno::ACCESS]
        {
            assert!(is_ours(ours), "{ours}");
        }
        for theirs in
            [Errno::CONNREFUSED, Errno::CONNRESET, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::TIMEDOUT]
        {
            assert!(!is_ours(theirs), "{theirs}");
        }
    }
}
