//! How to speak to an endpoint: the schemes of a URL that the guard knows.

/// How to speak to the target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scheme {
    /// HTTP over TLS, the rule.
    Https,
    /// Plain HTTP, only where the policy allows it.
    Http,
}

impl Scheme {
    /// The port that a URL of this scheme means when it names none.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    /// The scheme as it stands in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}
