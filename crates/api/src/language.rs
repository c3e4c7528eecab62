//! The languages of error messages: finds the one a caller reads best, and gives the message of a code in it.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use fluent_bundle::{FluentBundle, FluentResource};
use fluent_langneg::{LanguageIdentifier, NegotiationStrategy, negotiate_languages};
use settle_domain::error_code::ErrorCode;

/// How many entries of an `Accept-Language` header the negotiation reads.
const ACCEPTED_ENTRIES_MAX: usize = 32;
/// The longest `Accept-Language` header that the negotiation reads, in bytes; a longer one counts as none.
const ACCEPTED_BYTES_MAX: usize = 1_024;

/// A supported language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// English, the default.
    English,
    /// Brazilian Portuguese.
    Portuguese,
    /// Spanish.
    Spanish,
    /// German.
    German,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 4] = [Self::English, Self::Portuguese, Self::Spanish, Self::German];

    /// Its tag, as `Content-Language` says it.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Portuguese => "pt-BR",
            Self::Spanish => "es",
            Self::German => "de",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::English => include_str!("../../../locales/en/errors.ftl"),
            Self::Portuguese => include_str!("../../../locales/pt-BR/errors.ftl"),
            Self::Spanish => include_str!("../../../locales/es/errors.ftl"),
            Self::German => include_str!("../../../locales/de/errors.ftl"),
        }
    }
}

/// A language file that is not complete.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessagesFault {
    /// The file cannot be read.
    #[error("locales/{0}/errors.ftl: {1}")]
    Unreadable(&'static str, String),
    /// A code has no message.
    #[error("locales/{0}/errors.ftl has no message for {1}")]
    Missing(&'static str, Wording),
}

/// What an error says. Of one code there may be several: callers must learn what is wrong with their body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wording {
    /// The code's own message.
    Of(ErrorCode),
    /// The body's `Content-Type` is not JSON.
    ContentType,
    /// The body is too long.
    TooLarge,
    /// The request names no host, or more than one.
    Host,
    /// What came is not HTTP.
    Unreadable,
    /// The head of the request is too long, or has too many headers.
    HeadTooLarge,
}

impl Wording {
    /// Those that are not a code's own.
    const SPECIAL: [Wording; 5] =
        [Wording::ContentType, Wording::TooLarge, Wording::Host, Wording::Unreadable, Wording::HeadTooLarge];

    /// The code that it is said with.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Of(code) => code,
            Self::ContentType | Self::TooLarge | Self::Host | Self::Unreadable | Self::HeadTooLarge => {
                ErrorCode::InvalidBody
            }
        }
    }

    /// Its name in a language file, among those of its code.
    const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::Of(_) => None,
            Self::ContentType => Some("content_type"),
            Self::TooLarge => Some("too_large"),
            Self::Host => Some("host"),
            Self::Unreadable => Some("unreadable"),
            Self::HeadTooLarge => Some("head_too_large"),
        }
    }
}

impl fmt::Display for Wording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.code())?;
        self.attribute().map_or(Ok(()), |attribute| write!(formatter, ".{attribute}"))
    }
}

/// The messages of every code in every language.
pub struct Messages {
    texts: HashMap<(Language, Wording), String>,
    available: Vec<(LanguageIdentifier, Language)>,
}

static BUILT_IN: LazyLock<Result<Messages, MessagesFault>> = LazyLock::new(Messages::read);

impl Messages {
    /// The embedded language files, read once: the documents show a message for each of hundreds of answers.
    /// The service does not start with an incomplete one.
    pub fn built_in() -> Result<&'static Messages, &'static MessagesFault> {
        BUILT_IN.as_ref()
    }

    fn read() -> Result<Messages, MessagesFault> {
        let mut texts = HashMap::new();
        let mut available = Vec::new();
        for language in Language::ALL {
            let unreadable = |fault: String| MessagesFault::Unreadable(language.tag(), fault);
            let identifier: LanguageIdentifier =
                language.tag().parse().map_err(|fault| unreadable(format!("{fault}")))?;
            available.push((identifier, language));
            for (wording, text) in read(language, language.source())? {
                texts.insert((language, wording), text);
            }
        }
        Ok(Messages { texts, available })
    }

    /// What an error says in a language.
    #[must_use]
    pub fn text(&self, language: Language, wording: Wording) -> &str {
        // `read` has made sure that every message is there; the code itself is the last resort.
        self.texts.get(&(language, wording)).map_or(wording.code().as_str(), String::as_str)
    }

    /// Finds the language a caller reads best in the value of its `Accept-Language` header.
    #[must_use]
    pub fn negotiate(&self, accept_language: Option<&str>) -> Language {
        let asked = accept_language.map(weighted).unwrap_or_default();
        let excluded: Vec<Language> = asked
            .iter()
            .filter(|(weight, _)| *weight == 0)
            .filter_map(|(_, tag)| self.look_up(tag))
            .collect();
        let wanted = asked.iter().filter(|(weight, _)| *weight > 0).filter_map(|(_, tag)| self.look_up(tag));
        wanted.into_iter().find(|language| !excluded.contains(language)).unwrap_or(Language::English)
    }

    /// Finds the supported language that serves a caller who asks for this one.
    fn look_up(&self, asked: &LanguageIdentifier) -> Option<Language> {
        let available: Vec<&LanguageIdentifier> =
            self.available.iter().map(|(identifier, _)| identifier).collect();
        let found = negotiate_languages(&[asked], &available, None, NegotiationStrategy::Lookup);
        let best = found.first()?;
        self.available.iter().find(|(identifier, _)| identifier == **best).map(|(_, language)| *language)
    }
}

/// Reads one language file: one message for every code.
fn read(language: Language, source: &str) -> Result<Vec<(Wording, String)>, MessagesFault> {
    let unreadable = |fault: String| MessagesFault::Unreadable(language.tag(), fault);
    let resource = FluentResource::try_new(source.to_owned())
        .map_err(|(_, faults)| unreadable(format!("{faults:?}")))?;
    let mut bundle: FluentBundle<FluentResource> = FluentBundle::default();
    bundle.add_resource(resource).map_err(|faults| unreadable(format!("{faults:?}")))?;
    let message = |wording: Wording| {
        let missing = || MessagesFault::Missing(language.tag(), wording);
        let message = bundle.get_message(wording.code().as_str()).ok_or_else(missing)?;
        let pattern = match wording.attribute() {
            None => message.value(),
            Some(name) => message.get_attribute(name).map(|attribute| attribute.value()),
        };
        let mut faults = Vec::new();
        let text = bundle.format_pattern(pattern.ok_or_else(missing)?, None, &mut faults).into_owned();
        if faults.is_empty() {
            Ok((wording, text))
        } else {
            Err(unreadable(format!("{wording}: {faults:?}")))
        }
    };
    let own = ErrorCode::ALL.iter().copied().map(Wording::Of);
    own.chain(Wording::SPECIAL).map(message).collect()
}

/// Reads the languages a caller asks for with their weights, best first, and skips what is not a language.
fn weighted(header: &str) -> Vec<(u16, LanguageIdentifier)> {
    if header.len() > ACCEPTED_BYTES_MAX {
        return Vec::new();
    }
    let mut weighted: Vec<(u16, LanguageIdentifier)> = Vec::new();
    for entry in header.split(',').take(ACCEPTED_ENTRIES_MAX) {
        let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
        let identifier = LanguageIdentifier::try_from_bytes(tag.trim().as_bytes());
        if let (Ok(identifier), Some(weight)) = (identifier, thousandths(weight.trim())) {
            weighted.push((weight, identifier));
        }
    }
    // The sort is stable: languages of the same weight keep the caller's order.
    weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    weighted
}

/// Reads a weight such as `q=0.8` in thousandths. RFC 9110 allows `0` to `1` with at most three decimals.
fn thousandths(weight: &str) -> Option<u16> {
    let value = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="))?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, fraction) {
        ("0", fraction) => Some(fraction),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_message_in_every_language_and_no_language_has_more() {
        for language in Language::ALL {
            let messages = read(language, language.source()).unwrap();
            let declared = language.source().lines().filter(|line| line.contains(" = ")).count();
            let expected = 47 + Wording::SPECIAL.len();
            assert_eq!((messages.len(), declared), (expected, expected), "{}", language.tag());
        }
    }

    #[test]
    fn the_messages_are_those_of_the_contract() {
        let contract: serde_json::Value =
            serde_json::from_str(include_str!("../../domain/tests/data/error_codes.json")).unwrap();
        let messages = Messages::built_in().unwrap();
        for (row, code) in contract["codes"].as_array().unwrap().iter().zip(ErrorCode::ALL) {
            for language in Language::ALL {
                assert_eq!(
                    row["messages"][language.tag()],
                    messages.text(language, Wording::Of(*code)),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn a_file_without_a_code_is_refused() {
        let source = Language::German.source().replace("not_found =", "not_fnd =");
        assert_eq!(
            read(Language::German, &source),
            Err(MessagesFault::Missing("de", Wording::Of(ErrorCode::NotFound)))
        );
    }

    #[test]
    fn the_language_is_looked_up_by_weight() {
        let messages = Messages::built_in().unwrap();
        for (header, tag) in [
            ("", "en"),
            ("*", "en"),
            ("fr", "en"),
            ("not a language at all, really", "en"),
            (";;;,,,q=", "en"),
            ("de", "de"),
            ("DE-at", "de"),
            ("de-Latn-CH-1996", "de"),
            ("pt", "pt-BR"),
            ("pt-PT", "pt-BR"),
            ("pt-BR", "pt-BR"),
            ("es-419, en;q=0.9", "es"),
            ("en-GB, de", "en"),
            ("fr, de;q=0.5", "de"),
            ("en;q=0.2, es;q=0.8, de;q=0.5", "es"),
            ("de;q=0, es;q=0.1", "es"),
            ("de;q=0", "en"),
            ("de;q=0, *", "en"),
            ("de-AT, de;q=0", "en"),
            ("de-AT, es;q=0.1, de;q=0", "es"),
            ("de;q=nan, es;q=0.1", "es"),
            ("de;q=1.5, es;q=0.1", "es"),
            ("de;q=0.1234, es;q=0.1", "es"),
            ("es;q=0.5, de;q=0.5", "es"),
            ("de ; q=0.7 , es;q=0.2", "de"),
        ] {
            assert_eq!(messages.negotiate(Some(header)).tag(), tag, "{header}");
        }
        assert_eq!(messages.negotiate(None), Language::English);
        assert_eq!(messages.negotiate(Some(&"de,".repeat(2_000))), Language::English);
    }
}
