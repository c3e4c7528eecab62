//! The report of a run, for machines: the machine, the durations, and every figure.

use serde::Serialize;

use crate::figures::Figure;
use crate::scratch::StoreKind;

/// A run, as the benchmark writes it to a file.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) version: &'static str,
    pub(crate) store: StoreKind,
    pub(crate) quick: bool,
    pub(crate) full: bool,
    /// Built without optimisation: its figures mean nothing.
    pub(crate) debug: bool,
    pub(crate) machine: Machine,
    /// How long the whole run took.
    pub(crate) seconds: f64,
    pub(crate) scenarios: &'a [Timing],
    pub(crate) figures: &'a [Figure],
}

/// How long a scenario took, including its preparation.
#[derive(Serialize)]
pub(crate) struct Timing {
    pub(crate) scenario: String,
    pub(crate) seconds: f64,
}

/// The machine on which the benchmark ran.
#[derive(Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    memory_mib: u64,
    kernel: String,
}

impl Machine {
    /// This machine, as the kernel describes it.
    pub(crate) fn this() -> Machine {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory_kib.split_whitespace().next().and_then(|kib| kib.parse().ok());
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_mib: memory_kib.unwrap_or(0_u64) / 1_024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// The value in the first line `name : value`.
fn field(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\nMemTotal:  8000 kB\n";
        assert_eq!(field(text, "model name"), "Some CPU @ 2.00GHz");
        assert_eq!(field(text, "MemTotal"), "8000 kB");
        assert_eq!(field(text, "model"), "85");
        assert_eq!(field(text, "flags"), "");
    }
}
