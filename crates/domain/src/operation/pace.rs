//! How long the same key may be sent again, and how long the engine waits between two tries.

use std::time::Duration;

use super::classification::Window;

/// The part of a window that is not used: clocks differ, and a request takes its time.
const WINDOW_MARGIN_DIVISOR: u32 = 10;

impl Window {
    /// Whether the provider still remembers the key of an operation: the smaller of our setting and what the
    /// provider promises, less a tenth, from when it was prepared. Its age is the database's to count.
    #[must_use]
    pub fn after(age: Duration, setting: Duration, promised: Duration) -> Window {
        let whole = setting.min(promised);
        let length = whole.saturating_sub(whole / WINDOW_MARGIN_DIVISOR);
        if age < length { Window::Open } else { Window::Over }
    }
}

/// How long the engine waits before it tries again what is blocked, or looks up again what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait; it doubles after each try.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(5) }
    }
}

impl Backoff {
    /// The wait after this many tries in a row that led nowhere: `min(first · 2^(n−1), longest)`.
    #[must_use]
    pub fn delay_after(&self, tries: u32) -> Duration {
        let factor = 2_u32.checked_pow(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The same waits, none of them longer than this.
    #[must_use]
    pub fn within(self, longest: Duration) -> Backoff {
        Backoff { longest: self.longest.min(longest), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_smaller_one_less_a_tenth() {
        let (day, ten_hours) = (Duration::from_hours(24), Duration::from_hours(10));
        for (setting, promised) in [(day, ten_hours), (ten_hours, day)] {
            let window = |age| Window::after(age, setting, promised);
            assert_eq!(window(Duration::ZERO), Window::Open);
            assert_eq!(window(Duration::from_hours(9) - Duration::from_micros(1)), Window::Open);
            assert_eq!(window(Duration::from_hours(9)), Window::Over);
        }
        let none = Window::after(Duration::ZERO, day, Duration::ZERO);
        assert_eq!(none, Window::Over, "a provider that remembers nothing is never asked twice");
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = [0, 1, 2, 3, 6, 7, 8, 1_000].map(|tries| Backoff::default().delay_after(tries).as_secs());
        assert_eq!(waits, [5, 5, 10, 20, 160, 300, 300, 300]);
    }
}
