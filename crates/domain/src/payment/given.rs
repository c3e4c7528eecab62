//! What people say of a payment: how long and of which characters its texts are, how large its amounts.

use crate::money::{Asset, Decimal};

/// The longest reference, in bytes; the same as of a settlement that is recorded by hand.
const REFERENCE_BYTES_MAX: usize = 512;

/// The longest evidence, in bytes: two pages, which a timeline can still show.
const EVIDENCE_BYTES_MAX: usize = 4_096;

/// A problem with one field of what somebody says of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldFault {
    /// The field's name.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is nothing in it.
    #[error("is required")]
    Empty,
    /// It is longer than so many bytes.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// It would change what a terminal or a log shows.
    #[error("contains a control character")]
    ControlCharacter,
    /// Zero, or what the asset cannot transfer.
    #[error("must be more than zero, with no more decimals and digits than its asset has")]
    NotAnAmount,
    /// More than one payment may move of the asset.
    #[error("must be at most {}", .0.largest_payment())]
    TooLarge(Asset),
    /// So little that no rate can say what it cost.
    #[error("is too little for what was sold")]
    TooLittle,
    /// The provider's own word is on record.
    #[error("must be {0}, which the provider says and the books have, or not be given")]
    OnRecord(Decimal),
    /// Less than whoever should have it must have.
    #[error("must be at least {0}: it is done once they have the whole amount")]
    LessThanOwed(Decimal),
    /// Nothing that can be said of it.
    #[error("must not be given: nothing moved, or it changes nothing of this payment")]
    Needless,
}

/// Checks a reference: of a pay-in, of a destination, or a provider's own.
pub fn check_reference(field: &'static str, text: &str) -> Result<(), FieldFault> {
    let fault = |problem| Err(FieldFault { field, problem });
    if text.is_empty() {
        fault(Problem::Empty)
    } else if text.len() > REFERENCE_BYTES_MAX {
        fault(Problem::TooLong(REFERENCE_BYTES_MAX))
    } else if text.chars().any(char::is_control) {
        fault(Problem::ControlCharacter)
    } else {
        Ok(())
    }
}

/// Checks why an operator acts, and how it knows. It may have several lines.
pub fn check_evidence(field: &'static str, text: &str) -> Result<(), FieldFault> {
    let fault = |problem| Err(FieldFault { field, problem });
    if text.trim().is_empty() {
        fault(Problem::Empty)
    } else if text.len() > EVIDENCE_BYTES_MAX {
        fault(Problem::TooLong(EVIDENCE_BYTES_MAX))
    } else if text.chars().any(|character| character.is_control() && character != '\n') {
        fault(Problem::ControlCharacter)
    } else {
        Ok(())
    }
}

/// The amount at the scale of its asset, if one payment may move it.
pub fn checked_amount(field: &'static str, value: Decimal, asset: Asset) -> Result<Decimal, FieldFault> {
    if value > asset.largest_payment() {
        return Err(FieldFault { field, problem: Problem::TooLarge(asset) });
    }
    let amount = asset.amount(value).filter(|amount| !amount.is_zero());
    amount.ok_or(FieldFault { field, problem: Problem::NotAnAmount })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T>(checked: Result<T, FieldFault>) -> String {
        checked.err().map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_reference_is_short_and_harmless() {
        for (text, problem) in [
            ("bank-77", ""),
            ("", "is required"),
            ("a\0b", "contains a control character"),
            ("a\u{1b}[2Jb", "contains a control character"),
            ("a\nb", "contains a control character"),
            (&"a".repeat(512), ""),
            (&"a".repeat(513), "is longer than 512 bytes"),
        ] {
            let expected = if problem.is_empty() { String::new() } else { format!("reference: {problem}") };
            assert_eq!(told(check_reference("reference", text)), expected, "{text:?}");
        }
    }

    #[test]
    fn evidence_may_have_lines() {
        for (text, problem) in [
            ("the bank's statement\nof Monday", ""),
            (" \n", "is required"),
            ("a\u{1b}[2Jb", "contains a control character"),
            ("a\rb", "contains a control character"),
            (&"a".repeat(4_096), ""),
            (&"a".repeat(4_097), "is longer than 4096 bytes"),
        ] {
            let expected = if problem.is_empty() { String::new() } else { format!("evidence: {problem}") };
            assert_eq!(told(check_evidence("evidence", text)), expected, "{text:?}");
        }
    }

    #[test]
    fn an_amount_is_more_than_zero_and_no_more_than_the_books_can_add_up() {
        let brl: Asset = "BRL".parse().unwrap();
        let checked = |text: &str| told(checked_amount("amount", text.parse().unwrap(), brl));
        let largest = format!("{}.99", "9".repeat(28));
        assert_eq!(checked(&largest), "");
        assert_eq!(checked("0.01"), "");
        let too_large = format!("amount: must be at most {largest}");
        for huge in [format!("1{}", "0".repeat(28)), format!("{}.99", "9".repeat(36)), "9".repeat(38)] {
            assert_eq!(checked(&huge), too_large, "{huge}");
        }
        for none in ["0", "0.00", "0.001"] {
            assert!(checked(none).starts_with("amount: must be more than zero"), "{none}");
        }
    }
}
