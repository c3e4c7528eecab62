//! Reads a time as an operator writes it: a date and time, or how long ago.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_wiring::system::SystemClock;

/// An RFC 3339 time, or a duration before now.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_at(text, SystemClock.now())
}

fn parse_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let exact = text.parse().ok();
    let when = exact.or_else(|| Some(now.minus(duration(text)?)));
    when.ok_or_else(|| "neither a time such as 2026-01-31T09:30:00Z nor a duration such as 2h".to_owned())
}

/// A duration in weeks, days, hours and smaller units. Months and years are refused: they vary in length.
fn duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn exactly_or_so_long_ago() {
        let now = at("2026-03-01T12:00:00Z");
        for (text, expected) in [
            ("2026-02-01T09:30:00Z", "2026-02-01T09:30:00Z"),
            ("2026-02-01T09:30:00.5-03:00", "2026-02-01T12:30:00.5Z"),
            ("2h", "2026-03-01T10:00:00Z"),
            ("1h30m", "2026-03-01T10:30:00Z"),
            ("90s", "2026-03-01T11:58:30Z"),
            ("7d", "2026-02-22T12:00:00Z"),
            ("1w", "2026-02-22T12:00:00Z"),
        ] {
            assert_eq!(parse_at(text, now), Ok(at(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["", "yesterday", "2026-02-01", "2026-02-01T09:30:00", "2", "-2h", "2h ago", "1mo", "1y"]
        {
            assert!(parse_at(text, at("2026-03-01T12:00:00Z")).is_err(), "{text}");
        }
    }
}
