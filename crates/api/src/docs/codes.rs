//! The error codes as the page lists them: the code, its statuses, and what it says in English.

use serde::Serialize;
use settle_domain::error_code::{ErrorCode, Level};

use crate::error::{ApiError, BodyFault};
use crate::language::{Language, Messages, Wording};

/// One error code.
#[derive(Serialize)]
pub(super) struct Code {
    code: &'static str,
    /// The statuses it comes with; none for a code that stands on a field only.
    statuses: Vec<u16>,
    on_error: bool,
    on_field: bool,
    message: String,
}

/// Every code of the contract, in two lists: what the given operations answer with, and the others.
#[derive(Serialize)]
pub(super) struct Codes {
    used: Vec<Code>,
    other: Vec<Code>,
}

impl Codes {
    /// Puts the codes that documented answers name into one list, and the others into the second.
    pub(super) fn new(messages: &Messages, answered: &[&str]) -> Codes {
        // Codes that stand on fields alone belong to this API: nothing else has fields.
        let is_used = |code: ErrorCode| answered.contains(&code.as_str()) || code.level() == Level::Field;
        let (used, other): (Vec<ErrorCode>, Vec<ErrorCode>) =
            ErrorCode::ALL.iter().copied().partition(|code| is_used(*code));
        let listed = |codes: Vec<ErrorCode>| codes.into_iter().map(|code| describe(messages, code)).collect();
        Codes { used: listed(used), other: listed(other) }
    }
}

fn describe(messages: &Messages, code: ErrorCode) -> Code {
    let level = code.level();
    Code {
        code: code.as_str(),
        statuses: if level == Level::Field { Vec::new() } else { statuses(code) },
        on_error: level != Level::Field,
        on_field: level != Level::Top,
        message: messages.text(Language::English, Wording::Of(code)).to_owned(),
    }
}

/// The status of a code, and the further ones that three of the codes have.
fn statuses(code: ErrorCode) -> Vec<u16> {
    let with_another = [
        ApiError::MethodNotAllowed,
        ApiError::InvalidBody(BodyFault::TooLarge),
        ApiError::InvalidBody(BodyFault::WrongType),
        ApiError::Unavailable(String::new()),
    ];
    let others = with_another.iter().map(ApiError::status_and_code);
    let others = others.filter(|(_, other)| *other == code).map(|(status, _)| status.as_u16());
    std::iter::once(code.status()).chain(others).collect()
}
