//! The schemes of a URL that the guard knows.

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// Plain HTTP, if the policy allows it.
    Http,
}

impl Scheme {
    /// The port of a URL that names none.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    /// The scheme as written in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}
