//! Why an attempt failed, in a few words that a merchant can act on; or why we could not make it.

use std::error::Error;
use std::io;
use std::net::IpAddr;
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
    /// This machine has no free port, no network, or a policy that lets nothing out.
    #[error("we could not send: no free port or no network on our side")]
    Network,
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
            Self::Network => "network",
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
    pub(super) fn of_connecting(address: IpAddr, fault: &io::Error) -> Failure {
        // Where this machine has no IPv6 at all, that is what it says of every such address.
        let is_without_port = address.is_ipv4() && fault.kind() == io::ErrorKind::AddrNotAvailable;
        match SendError::of(fault).or(is_without_port.then_some(SendError::Network)) {
            Some(error) => Failure::Ours(error),
            None => Failure::Theirs(AttemptFault::Connect(fault.kind())),
        }
    }
}

impl SendError {
    fn of(fault: &io::Error) -> Option<SendError> {
        match Errno::from_io_error(fault)? {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Some(SendError::Resources),
            // A router or a firewall on the way says that a host or network is unreachable, or EACCES.
            Errno::NETDOWN | Errno::PERM => Some(SendError::Network),
            _ => None,
        }
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
pub const FAULT_CAUSES: [&str; 7] =
    ["resources", "network", "resolver", KEPT_CONNECTION, "secret", "panic", "unreadable"];

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

    fn of(address: &str, number: Errno) -> Failure {
        let fault = io::Error::from_raw_os_error(number.raw_os_error());
        Failure::of_connecting(address.parse().expect("an address"), &fault)
    }

    #[test]
    fn what_this_machine_lacks_is_no_fault_of_an_endpoint() {
        for (number, error) in [
            (Errno::MFILE, SendError::Resources),
            (Errno::NOBUFS, SendError::Resources),
            (Errno::NETDOWN, SendError::Network),
            (Errno::PERM, SendError::Network),
        ] {
            for address in ["192.0.2.1", "2001:db8::1"] {
                assert!(matches!(of(address, number), Failure::Ours(ours) if ours == error), "{number}");
            }
        }
        assert!(matches!(of("192.0.2.1", Errno::ADDRNOTAVAIL), Failure::Ours(SendError::Network)));
    }

    /// What a router, a firewall or the endpoint itself can say, and what a machine without IPv6 says.
    #[test]
    fn what_others_can_say_is_not_ours() {
        let theirs = [
            Errno::CONNREFUSED,
            Errno::CONNRESET,
            Errno::NETUNREACH,
            Errno::HOSTUNREACH,
            Errno::TIMEDOUT,
            Errno::ACCESS,
        ];
        for number in theirs {
            assert!(matches!(of("2001:db8::1", number), Failure::Theirs(_)), "{number}");
        }
        assert!(matches!(of("2001:db8::1", Errno::ADDRNOTAVAIL), Failure::Theirs(_)));
    }
}
