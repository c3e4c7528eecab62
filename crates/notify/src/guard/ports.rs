//! Ports that a notification may be sent to.

use super::Scheme;

/// Ports below this belong to system services; a webhook needs only the schemes' own.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

/// The ports from 1024 up that the Fetch standard blocks ("bad ports"), in ascending order: a service behind
/// them may take a request's text for its own commands. The standard's lower entries are refused as system
/// ports.
const BAD_PORTS: &[u16] = &[
    1719,  // H.323 gatekeeper
    1720,  // H.323 call signalling
    1723,  // PPTP
    2049,  // NFS
    3659,  // Apple SASL
    4045,  // NFS lock manager
    4190,  // ManageSieve
    5060,  // SIP
    5061,  // SIP over TLS
    6000,  // X11
    6566,  // SANE
    6665,  // IRC
    6666,  // IRC
    6667,  // IRC
    6668,  // IRC
    6669,  // IRC
    6679,  // IRC over TLS
    6697,  // IRC over TLS
    10080, // Amanda
];

/// Whether a URL of this scheme may name this port.
///
/// 443 serves both schemes, 80 only `http`: TLS on port 80 is a mistake, and `http` itself is accepted in
/// development only.
#[must_use]
pub fn is_allowed(scheme: Scheme, port: u16) -> bool {
    if port < UNPRIVILEGED_PORT_MIN {
        port == Scheme::Https.default_port() || port == scheme.default_port()
    } else {
        BAD_PORTS.binary_search(&port).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_the_binary_search() {
        assert!(BAD_PORTS.is_sorted());
    }

    /// The whole list of the Fetch standard, to check `BAD_PORTS` against.
    const FETCH_BAD_PORTS: &str = "0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 \
        109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 \
        548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 \
        6666 6667 6668 6669 6679 6697 10080";

    #[test]
    fn no_bad_port_of_the_fetch_standard_is_allowed() {
        let ports = FETCH_BAD_PORTS.split(' ').map(|port| port.parse().expect("a port"));
        for port in ports {
            assert!(!is_allowed(Scheme::Https, port), "{port}");
            assert!(!is_allowed(Scheme::Http, port), "{port}");
        }
    }

    #[test]
    fn https_allows_443_and_unprivileged_ports_only() {
        let allowed = (0..=u16::MAX).filter(|port| is_allowed(Scheme::Https, *port)).count();
        assert_eq!(allowed, 1 + (65_536 - 1024) - BAD_PORTS.len());
        assert!(is_allowed(Scheme::Https, 443));
        assert!(!is_allowed(Scheme::Https, 80));
        assert!(!is_allowed(Scheme::Https, 1023));
        assert!(is_allowed(Scheme::Https, 1024));
        assert!(!is_allowed(Scheme::Https, 6000));
    }

    #[test]
    fn http_adds_port_80_and_nothing_else() {
        for port in 0..=u16::MAX {
            let expected = port == 80 || is_allowed(Scheme::Https, port);
            assert_eq!(is_allowed(Scheme::Http, port), expected, "{port}");
        }
    }
}
