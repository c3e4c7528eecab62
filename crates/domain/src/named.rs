//! Enums whose variants have one text each, the same in the API, in the databases and in logs.

/// Text that names no variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not {0}")]
pub struct NameFault(
    /// What the text should have named, with its article.
    pub &'static str,
);

/// Defines an enum with its texts: `ALL`, `as_str`, reading, printing, and its form in JSON.
macro_rules! named {
    (
        $(#[$outer:meta])*
        pub enum $name:ident, $what:literal {
            $($(#[$inner:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of their definition.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// The text that the API shows and the databases store.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::named::NameFault;

            fn from_str(text: &str) -> Result<$name, $crate::named::NameFault> {
                let named = Self::ALL.iter().copied().find(|variant| variant.as_str() == text);
                named.ok_or($crate::named::NameFault($what))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::NameFault;

    named! {
        /// The sides of a coin.
        pub enum Side, "a side of a coin" {
            /// The head.
            Heads = "heads",
            /// The number.
            Tails = "tails",
        }
    }

    #[test]
    fn every_variant_is_read_back_from_its_text() {
        assert_eq!(Side::ALL.len(), 2);
        for side in Side::ALL {
            assert_eq!(side.to_string().parse(), Ok(*side));
            let json = serde_json::to_string(side).unwrap();
            assert_eq!(json, format!("\"{side}\""));
            assert_eq!(serde_json::from_str::<Side>(&json).unwrap(), *side);
        }
        for other in ["", "Heads", "heads ", "edge"] {
            assert_eq!(other.parse::<Side>(), Err(NameFault("a side of a coin")), "{other}");
        }
        assert_eq!("edge".parse::<Side>().unwrap_err().to_string(), "not a side of a coin");
    }
}
