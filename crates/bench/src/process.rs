//! Child processes: each ends with the benchmark, and every wait for one has a limit.

use std::io;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

/// How often a wait looks whether the child has ended.
const WAIT_POLL: Duration = Duration::from_millis(5);
/// How long a killed process may take to end: one that waits for a disk ends when the disk answers.
const KILLED_TIMEOUT: Duration = Duration::from_secs(10);

/// The kernel counts processor time in ticks of this rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running process, killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Process {
        Process(child)
    }

    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        self.0.try_wait().map(|status| status.is_some())
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        kill(&mut self.0)
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
        let _ = kill(&mut self.0);
    }
}

fn kill(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    wait(child, KILLED_TIMEOUT).map(drop)
}

/// Waits until the child ends, at most this long.
#[expect(clippy::disallowed_methods, reason = "the standard library has no wait for a child with a limit")]
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("process {} did not end within {limit:?}", child.id()),
            ));
        }
        std::thread::sleep(WAIT_POLL);
    }
}

/// Runs a command to its end. If it takes longer than the limit, it is killed and this is an error. What it
/// prints must fit into a pipe: nobody reads before it has ended.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let mut child = command.spawn()?;
    if let Err(late) = wait(&mut child, limit) {
        kill(&mut child)?;
        return Err(late);
    }
    child.wait_with_output()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// A command that runs for as long as the test does: nobody writes to it or closes its input.
    fn endless() -> Command {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_child_that_does_not_end_is_killed_at_the_limit() {
        let late = run(&mut endless(), Duration::ZERO).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut child = endless().spawn().unwrap();
        kill(&mut child).unwrap();
        assert!(child.try_wait().unwrap().is_some(), "it has ended");
    }

    #[test]
    fn what_a_child_prints_is_kept() {
        let output = run(Command::new("echo").arg("done").stdout(Stdio::piped()), KILLED_TIMEOUT).unwrap();
        assert_eq!((output.status.success(), output.stdout.as_slice()), (true, b"done\n".as_slice()));
    }
}
