//! The measured figures, as a table for people and as JSON for machines.

use serde::Serialize;

/// Which side of its target a figure must be on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// As much or more.
    AtLeast(f64),
    /// As much or less.
    AtMost(f64),
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) scenario: &'static str,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Target>,
}

impl Figure {
    pub(crate) fn new(
        scenario: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Figure {
        Figure { scenario, name: name.into(), value, unit, target: None }
    }

    pub(crate) fn at_least(mut self, target: f64) -> Figure {
        self.target = Some(Target::AtLeast(target));
        self
    }

    pub(crate) fn at_most(mut self, target: f64) -> Figure {
        self.target = Some(Target::AtMost(target));
        self
    }

    /// Whether it is on the right side of its target; `None` where it has none.
    pub(crate) fn holds(&self) -> Option<bool> {
        self.target.map(|target| match target {
            Target::AtLeast(target) => self.value >= target,
            Target::AtMost(target) => self.value <= target,
        })
    }
}

/// Figures as a table, aligned.
pub(crate) fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
    let mut lines =
        vec![format!("{:<11} {:<width$} {:>12} {:<4} {}", "scenario", "figure", "value", "", "target")];
    for figure in figures {
        let target = match figure.target {
            Some(Target::AtLeast(target)) => format!("≥ {target}"),
            Some(Target::AtMost(target)) => format!("≤ {target}"),
            None => String::new(),
        };
        let verdict = match figure.holds() {
            Some(true) => " met",
            Some(false) => " MISSED",
            None => "",
        };
        let (scenario, name, unit) = (figure.scenario, &figure.name, figure.unit);
        let line =
            format!("{scenario:<11} {name:<width$} {:>12.2} {unit:<4} {target}{verdict}", figure.value);
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

/// A count as a number that can be divided.
pub(crate) fn number(count: impl TryInto<u64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
    let number = count.try_into().unwrap_or(u64::MAX) as f64;
    number
}
