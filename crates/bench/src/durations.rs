//! Durations, and their percentiles.

use std::ops::AddAssign;

use hdrhistogram::Histogram;

/// Significant digits: a value below 2,048 is exact, a larger one is within a thousandth.
const DIGITS: u8 = 3;
/// The largest value, an hour in nanoseconds; a larger one counts as this.
const LONGEST: u64 = 3_600_000_000_000;

/// Durations in a unit that the caller chooses, microseconds or nanoseconds.
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    #[expect(clippy::expect_used, reason = "the two constants are within what a histogram can have")]
    pub(crate) fn new() -> Durations {
        Durations(Histogram::new_with_max(LONGEST, DIGITS).expect("the bounds of a histogram"))
    }

    pub(crate) fn record(&mut self, took: u64) {
        self.0.saturating_record(took);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that the given part of them did not exceed; NaN if there are none.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an hour in nanoseconds is below 2^53")]
        let value = self.0.value_at_quantile(part) as f64;
        if self.0.is_empty() { f64::NAN } else { value }
    }
}

impl AddAssign<&Durations> for Durations {
    fn add_assign(&mut self, other: &Durations) {
        self.0 += &other.0;
    }
}

impl FromIterator<u64> for Durations {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Durations {
        let mut durations = Durations::new();
        all.into_iter().for_each(|took| durations.record(took));
        durations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_within_a_thousandth() {
        let durations: Durations = (1..=1_000_000).collect();
        for (part, exact) in [(0.001, 1_000.0), (0.5, 500_000.0), (0.99, 990_000.0), (0.999, 999_000.0)] {
            let error = (durations.percentile(part) - exact).abs() / exact;
            assert!(error <= 0.001, "{part}: {error}");
        }
    }

    #[test]
    fn few_and_short_ones_are_exact() {
        let durations: Durations = [1_900, 30, 7, 2_000, 12].into_iter().collect();
        let shown = [0.1, 0.5, 0.99].map(|part| durations.percentile(part).to_string());
        assert_eq!(shown, ["7", "30", "2000"]);
    }

    #[test]
    fn nothing_took_no_time_at_all() {
        assert!(Durations::new().percentile(0.5).is_nan());
    }

    #[test]
    fn what_takes_for_ever_counts_as_an_hour() {
        let durations: Durations = [u64::MAX].into_iter().collect();
        assert!(durations.percentile(0.5) < 3_700e9);
    }

    #[test]
    fn those_of_several_callers_are_added() {
        let mut durations: Durations = [1, 2].into_iter().collect();
        durations += &[3].into_iter().collect();
        assert_eq!((durations.count(), durations.percentile(1.0).to_string()), (3, "3".to_owned()));
    }
}
