//! A child process that ends with the benchmark.

use std::process::Child;

/// The kernel counts processor time in ticks of this rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running process, killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Process {
        Process(child)
    }

    pub(crate) fn has_ended(&mut self) -> std::io::Result<bool> {
        self.0.try_wait().map(|status| status.is_some())
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(mut self) -> std::io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }

    /// Processor seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.0.id())
    }

    /// Resident memory now and at most, in MiB.
    pub(crate) fn memory_mib(&self) -> (f64, f64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let read = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
            kib / 1_024.0
        };
        (read("VmRSS:"), read("VmHWM:"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor seconds that a process has used, in its own code and in the kernel.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    times(process, 2)
}

/// The same, including its children that have ended.
pub(crate) fn cpu_seconds_with_ended(process: u32) -> f64 {
    times(process, 4)
}

/// The sum of the first `number` of its four times: in user code, in the kernel, and both again for its ended
/// children.
fn times(process: u32, number: usize) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may contain anything; only numbers follow it.
    let numbers = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = numbers.skip(11).take(number).filter_map(|text| text.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}
