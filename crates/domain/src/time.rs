//! Points in time: UTC, to the microsecond, written as RFC 3339 with offset `+00:00` and six fraction digits.
//!
//! jiff reads them and knows the calendar, but we keep them as a number of microseconds: both databases store
//! that, it takes 8 bytes instead of jiff's 16, and we set the range.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::tz::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A point in time, to the microsecond: both databases store it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Text that is not an RFC 3339 date-time between the years 1 and 9999 (almost to its end).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date-time with offset, such as 2026-01-31T09:30:00+00:00")]
pub struct TimestampFault;

/// Reads a length of time such as `10s`, `1h30m` or `0s`; none is negative.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

impl Timestamp {
    /// Midnight of 1 January in the year 1: the earliest time that has a four-digit year.
    pub const MIN: Timestamp = Timestamp(-62_135_596_800_000_000);
    /// The last time whose year has four digits at every offset.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000_000);

    /// From microseconds since 1970, clamped to [`Self::MIN`] and [`Self::MAX`].
    #[must_use]
    pub const fn from_micros(micros: i64) -> Timestamp {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Timestamp(micros)
        }
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down: the value of the `service-timestamp` header.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Milliseconds since 1970, rounded down and never negative: the time of a uuid v7.
    #[must_use]
    pub const fn as_uuid_millis(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0.unsigned_abs() / 1_000 }
    }

    /// The part of a millisecond that [`Timestamp::as_uuid_millis`] leaves out, in 4,096ths: no two
    /// microseconds share one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it is below 4,096")]
    pub const fn as_uuid_fraction(self) -> u16 {
        if self.0 < 0 { 0 } else { (self.0.unsigned_abs() % 1_000 * 4_096 / 1_000) as u16 }
    }

    /// The time from `earlier` to this one; zero if this one is before it.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time moved by a duration into the future.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_add(micros))
    }

    /// This time moved by a duration into the past.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_sub(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Text::of(*self).as_str())
    }
}

/// A time as it is printed. It allocates nothing and goes through no formatter: a page of 50 deliveries has
/// 150 of them.
struct Text([u8; 32]);

impl Text {
    fn of(time: Timestamp) -> Text {
        // Our range lies inside jiff's, so the fallback is never used.
        let time = jiff::Timestamp::from_microsecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let time = Offset::UTC.to_datetime(time);
        let mut text = *b"0000-00-00T00:00:00.000000+00:00";
        for (place, number) in [
            (0..4, time.year().into()),
            (5..7, time.month().into()),
            (8..10, time.day().into()),
            (11..13, time.hour().into()),
            (14..16, time.minute().into()),
            (17..19, time.second().into()),
            (20..26, time.subsec_nanosecond() / 1_000),
        ] {
            write_digits(&mut text[place], i32::unsigned_abs(number));
        }
        Text(text)
    }

    fn as_str(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Fills the place with the number's last digits.
fn write_digits(place: &mut [u8], mut number: u32) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789"[(number % 10) as usize];
        number /= 10;
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampFault;

    /// Accepts any offset and up to nine fraction digits, and cuts off all below a microsecond.
    fn from_str(text: &str) -> Result<Timestamp, TimestampFault> {
        // jiff accepts more than RFC 3339: hours only, a space for the T, years of six digits.
        let bytes = text.as_bytes();
        let strict = bytes.len() >= 20
            && bytes[..4].iter().all(u8::is_ascii_digit)
            && matches!(bytes[10], b'T' | b't')
            && bytes[13] == b':'
            && bytes[16] == b':'
            && !text.contains('[');
        if !strict {
            return Err(TimestampFault);
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| TimestampFault)?;
        // jiff rounds towards 1970. Before 1970, cutting digits off must lead away from it.
        let is_cut_before_1970 = parsed.subsec_nanosecond() % 1_000 < 0;
        let micros = parsed.as_microsecond() - i64::from(is_cut_before_1970);
        if !(Self::MIN.0..=Self::MAX.0).contains(&micros) {
            return Err(TimestampFault);
        }
        Ok(Timestamp(micros))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Text::of(*self).as_str())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::fmt::temporal::DateTimePrinter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_time_is_printed_as_jiff_prints_it(micros in Timestamp::MIN.0..=Timestamp::MAX.0) {
            let printer = DateTimePrinter::new().precision(Some(6));
            let time = jiff::Timestamp::from_microsecond(micros).unwrap();
            let printed = printer.timestamp_with_offset_to_string(&time, Offset::UTC);
            prop_assert_eq!(Timestamp(micros).to_string(), &*printed);
            prop_assert_eq!(serde_json::to_value(Timestamp(micros)).unwrap(), printed);
        }
    }

    #[test]
    fn printed_in_utc_with_six_digits() {
        let time: Timestamp = "2026-03-01T12:00:00.1234567-03:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-03-01T15:00:00.123456+00:00");
        assert_eq!(
            "2026-03-01T15:00:00Z".parse::<Timestamp>().unwrap().to_string(),
            "2026-03-01T15:00:00.000000+00:00"
        );
    }

    #[test]
    fn what_is_finer_than_a_microsecond_is_cut_off_at_all_times() {
        for (text, printed) in [
            ("2026-03-01T15:00:00.123456999Z", "2026-03-01T15:00:00.123456+00:00"),
            ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999+00:00"),
            ("1969-12-31T23:59:59.9999990Z", "1969-12-31T23:59:59.999999+00:00"),
            ("1900-01-01T00:00:00.000000001Z", "1900-01-01T00:00:00.000000+00:00"),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn the_ends_of_the_range_print_and_parse() {
        for (time, text) in [
            (Timestamp::MIN, "0001-01-01T00:00:00.000000+00:00"),
            (Timestamp::MAX, "9999-12-30T22:00:00.000000+00:00"),
        ] {
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse::<Timestamp>(), Ok(time));
        }
        assert_eq!(Timestamp::from_micros(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
    }

    #[test]
    fn what_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "now",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-03-01 12:00:00Z",
            "2026-03-01T12Z",
            "1767225600",
            "2026-02-30T00:00:00Z",
            "2026-03-01T25:00:00Z",
            "+002026-03-01T12:00:00Z",
            "2026-03-01T12:00:00Z[UTC]",
            "2026-03-01T12:00:00+99:00",
            "2026-03-01T12:00:00.1234567890Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampFault), "{text}");
        }
    }
}
