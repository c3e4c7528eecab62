//! Names that the guard refuses without asking the DNS: private names, and names that cannot resolve.
//!
//! All names here are in lower-case ASCII, without a trailing dot.

/// Names that have a meaning only in a private network, a host file or a cloud's own resolver: each name, and
/// all names below it.
const PRIVATE_SUFFIXES: &[&str] = &[
    "localhost",     // loopback by RFC 6761
    "local",         // multicast DNS, RFC 6762; also clusters (`svc.cluster.local`)
    "localdomain",   // host files
    "internal",      // reserved for private use by ICANN in 2024; metadata services of GCP and EC2
    "home.arpa",     // home networks, RFC 8375
    "svc",           // Kubernetes services behind a search domain
    "lan",           // undelegated, used by home routers
    "corp",          // undelegated, used inside companies
    "home",          // undelegated, used by home routers
    "intranet",      // undelegated, used inside companies
    "private",       // undelegated, used inside companies
    "metadata.goog", // GCP's metadata service under a public top-level domain
];

/// Names that by definition have no address; a question would only leak them.
const UNRESOLVABLE_SUFFIXES: &[&str] = &[
    "onion",   // Tor, RFC 7686
    "invalid", // RFC 6761
];

/// Whether the name is private: a single label, which only a search domain could complete, or a name in or
/// below one of the private suffixes.
pub(super) fn is_private(name: &str) -> bool {
    !name.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| is_in_or_below(name, suffix))
}

/// Whether the name is known to have no address.
pub(super) fn is_unresolvable(name: &str) -> bool {
    UNRESOLVABLE_SUFFIXES.iter().any(|suffix| is_in_or_below(name, suffix))
}

/// Compares on a label boundary: `mylocalhost.com` and `notlocal` are not below `localhost` and `local`.
fn is_in_or_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_private_suffix_is_refused_with_all_below_it() {
        for suffix in PRIVATE_SUFFIXES {
            assert!(is_private(suffix), "{suffix}");
            assert!(is_private(&format!("a.{suffix}")), "a.{suffix}");
            assert!(is_private(&format!("a.b.{suffix}")), "a.b.{suffix}");
        }
    }

    #[test]
    fn a_suffix_matches_on_label_boundaries_only() {
        for suffix in PRIVATE_SUFFIXES {
            assert!(!is_private(&format!("a.not{suffix}")), "a.not{suffix}");
            assert!(!is_private(&format!("{suffix}.example.com")), "{suffix}.example.com");
        }
        assert!(!is_private("goog.example"));
        assert!(!is_private("a.goog"));
        assert!(!is_private("a.arpa"));
    }

    #[test]
    fn a_single_label_is_private() {
        assert!(is_private("com"));
        assert!(is_private("postgres"));
    }

    #[test]
    fn onion_and_invalid_are_unresolvable() {
        assert!(is_unresolvable("a.onion"));
        assert!(is_unresolvable("a.b.invalid"));
        assert!(!is_unresolvable("onion.example"));
        assert!(!is_unresolvable("a.notonion"));
    }
}
