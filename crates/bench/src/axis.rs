//! The axes of a plot: where a value stands on one, and which values are written beside it.

/// Steps between numbers that people like to read.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Numbers beside an axis, about.
const TICKS: f64 = 6.0;

/// A range of values, drawn evenly or by their magnitude.
pub(crate) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    /// From 0 to the highest value.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Axis {
        let highest = values.fold(0.0, f64::max);
        Axis { low: 0.0, high: if highest > 0.0 { highest } else { 1.0 }, logarithmic: false }
    }

    /// From the lowest value to the highest, rounded to numbers that are written beside it.
    pub(crate) fn logarithmic(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        if high <= 0.0 {
            return Axis { low: 1.0, high: 10.0, logarithmic: true };
        }
        let below = round_numbers(low / 10.0, low).last().copied().unwrap_or(low);
        let above = round_numbers(high, high * 10.0).first().copied().unwrap_or(high);
        Axis { low: below, high: above, logarithmic: true }
    }

    /// Where a value stands, between 0 and 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// The numbers to be written beside the axis, as values and as texts.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = if self.logarithmic {
            round_numbers(self.low, self.high)
        } else {
            let wanted = self.high / TICKS;
            let step = round_numbers(wanted, wanted * 10.0).first().copied().unwrap_or(wanted);
            let mut ticks = vec![0.0];
            while ticks.last().is_some_and(|last| last + step <= self.high * 1.001) {
                ticks.push(ticks.last().copied().unwrap_or(0.0) + step);
            }
            ticks
        };
        ticks.into_iter().map(|tick| (tick, written(tick))).collect()
    }
}

/// 1, 2 and 5 and their multiples by ten, from one value to another.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let mut found = Vec::new();
    let mut magnitude = 10_f64.powf(low.log10().floor());
    while magnitude <= high * 1.001 {
        let numbers = STEPS.iter().map(|step| step * magnitude);
        // A little slack, because tenths are not exact.
        found.extend(numbers.filter(|number| *number >= low * 0.999 && *number <= high * 1.001));
        magnitude *= 10.0;
    }
    found
}

/// A number without more digits than it needs, its thousands apart.
fn written(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn an_even_axis_begins_at_nothing() {
        let axis = Axis::linear([3.0, 9_400.0].into_iter());
        assert_eq!(texts(&axis), ["0", "2,000", "4,000", "6,000", "8,000"]);
        assert_eq!((axis.place(0.0), axis.place(9_400.0)), (0.0, 1.0));
        assert_eq!(texts(&Axis::linear([0.5].into_iter())), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
    }

    #[test]
    fn an_axis_of_magnitudes_ends_at_round_numbers() {
        let axis = Axis::logarithmic([1.3, 14.0].into_iter());
        assert_eq!(texts(&axis), ["1", "2", "5", "10", "20"]);
        assert_eq!((axis.place(1.0), axis.place(20.0)), (0.0, 1.0));
    }

    #[test]
    fn nothing_to_draw_is_no_fault() {
        assert_eq!(texts(&Axis::logarithmic(std::iter::empty())), ["1", "2", "5", "10"]);
        assert!(!texts(&Axis::linear(std::iter::empty())).is_empty());
    }
}
