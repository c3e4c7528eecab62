//! Who says that a settlement is complete.

/// Where a record comes from. It is no part of what makes two settlements the same: what was recorded
/// unchecked and comes again is the same settlement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// An operator recorded it, and its own figures allow its outgoing amount.
    #[default]
    Hand,
    /// An operator recorded it as `unchecked`, and its own figures allow less than its outgoing amount.
    Unchecked,
    /// The engine completed a payment.
    Payment,
}

impl Origin {
    /// All origins.
    pub const ALL: [Origin; 3] = [Self::Hand, Self::Unchecked, Self::Payment];

    /// Its number in the database.
    #[must_use]
    pub const fn number(self) -> i16 {
        match self {
            Self::Hand => 0,
            Self::Unchecked => 1,
            Self::Payment => 2,
        }
    }

    /// The origin with this number in the database.
    #[must_use]
    pub fn from_number(number: i16) -> Option<Origin> {
        Self::ALL.into_iter().find(|origin| origin.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_one_number() {
        for origin in Origin::ALL {
            assert_eq!(Origin::from_number(origin.number()), Some(origin));
        }
        assert_eq!((Origin::default().number(), Origin::from_number(3)), (0, None));
    }
}
