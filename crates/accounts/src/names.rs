//! Names and labels that people will read.

/// The longest name of a merchant or an operator, and the longest label of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// Why a text cannot be a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// It has only white space.
    #[error("is empty")]
    Empty,
    /// It is too long.
    #[error("is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// It contains a control character, which could command a terminal.
    #[error("contains a control character")]
    ControlCharacter,
}

/// The name without white space around it: not empty, not too long, no control characters.
pub(crate) fn checked(name: &str) -> Result<String, NameFault> {
    let name = name.trim();
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    if name.chars().any(char::is_control) {
        return Err(NameFault::ControlCharacter);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_without_the_space_around_it() {
        assert_eq!(checked("  Loja do João \n"), Ok("Loja do João".to_owned()));
        let longest = "é".repeat(NAME_BYTES_MAX / 2);
        assert_eq!(checked(&longest), Ok(longest.clone()));
    }

    #[test]
    fn what_nobody_could_read_is_no_name() {
        assert_eq!(checked(" \t"), Err(NameFault::Empty));
        assert_eq!(checked(&"x".repeat(NAME_BYTES_MAX + 1)), Err(NameFault::TooLong));
        assert_eq!(checked("a\u{1b}[31mb"), Err(NameFault::ControlCharacter));
    }
}
