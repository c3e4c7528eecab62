//! A time on whatever an operator may type: nothing panics, and what is accepted is a time as it stands there
//! or one that is not after now, and the same after it is written.
//!
//! Texts are near to the corpus: texts that once were, or nearly were, a problem. Add the text of a bug
//! before you mend it.

use proptest::prelude::*;
use settle_testing::corpus::near;

use super::*;

const CORPUS: &[&str] = &[
    "",
    " ",
    "0",
    "2",
    "2h",
    "1h30m",
    "90s",
    "7d",
    "1w",
    "1w 2d 3h 4m 5s 6ms 7us 8ns",
    "1.5h",
    "1,5h",
    "2h ago",
    "-2h",
    "+2h",
    "--2h",
    "0s",
    "1mo",
    "1y",
    "19999y",
    "7304484d",
    "7304485d",
    "1043497w",
    "175307616h",
    "175307617h",
    "631107417600s",
    "9223372036854775807s",
    "9223372036854775808s",
    "99999999999999999999h",
    "0.000000001s",
    "0.0000000001s",
    "PT2H",
    "P1W",
    "P1M",
    "-P1D",
    "P1DT",
    "pt1.5h",
    "01:30:00",
    "1 hour, 2 minutes",
    "yesterday",
    "2026-02-01",
    "2026-02-01T09:30:00",
    "2026-02-01T09:30:00Z",
    "2026-02-01t09:30:00z",
    "2026-02-01T09:30:00.5-03:00",
    "2026-02-01T09:30:00.123456789Z",
    "2026-02-01T09:30:00+99:99",
    "2026-02-30T00:00:00Z",
    "2026-06-30T23:59:60Z",
    "2026-02-01T09:30:00Z[UTC]",
    "0001-01-01T00:00:00Z",
    "0000-12-31T23:59:59Z",
    "9999-12-30T22:00:00Z",
    "9999-12-31T23:59:59Z",
    "+002026-02-01T09:30:00Z",
    "1767225600",
    "２h",
    "2h\u{0}",
];
const PIECES: &[&str] =
    &["-", "+", ":", ".", ",", " ", "T", "Z", "P", "0", "1", "9", "99999999", "w", "d", "h", "m", "s", "ago"];
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn any_text() -> impl Strategy<Value = String> {
    near(CORPUS.iter().map(|text| (*text).to_owned()).collect(), PIECES)
}

/// Whether the text is a time.
fn read(text: &str) -> bool {
    let when = match parse_at(text, NOW) {
        Ok(when) => when,
        Err(fault) => {
            assert!(fault.starts_with("neither a time such as ") && text.parse::<Timestamp>().is_err());
            return false;
        }
    };
    match text.parse::<Timestamp>() {
        Ok(exact) => assert_eq!(when, exact, "{text:?}"),
        Err(_) => assert!(when <= NOW, "{text:?}: {when}"),
    }
    assert_eq!(parse_at(&when.to_string(), NOW), Ok(when), "{text:?}");
    true
}

#[test]
fn the_corpus() {
    let read = CORPUS.iter().filter(|text| read(text)).count();
    assert!(read >= 12, "{read} texts were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_text_is_a_time_or_refused(text in any_text()) {
        read(&text);
    }
}
