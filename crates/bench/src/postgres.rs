//! A PostgreSQL that the run starts for itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;
use crate::ports::free_address;
use crate::process::{cpu_seconds, cpu_seconds_with_ended, run, wait};

/// How long PostgreSQL may take to start.
const POSTGRES_START_TIMEOUT: Duration = Duration::from_secs(30);
const POSTGRES_POLL: Duration = Duration::from_millis(50);
/// How long PostgreSQL may take to end.
const POSTGRES_STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may clean up before somebody goes on all the same.
const CLEAN_TIMEOUT: Duration = Duration::from_mins(3);
/// How long one of its programs may take beyond the time that it was given.
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(2);
/// Where Debian keeps PostgreSQL's programs.
const POSTGRES_FOLDER: &str = "/usr/lib/postgresql";

/// A throw-away PostgreSQL that syncs as by default: a committed row is on the disk.
pub(crate) struct Postgres {
    server: Child,
    binaries: PathBuf,
    pub(crate) url: String,
}

impl Postgres {
    pub(crate) async fn start(folder: &Path) -> Result<Postgres, BenchError> {
        let binaries = newest_binaries()?;
        let home = folder.join("postgres");
        std::fs::create_dir(&home)?;
        let data = home.join("data");
        if is_root() {
            // PostgreSQL refuses to run as root, and the user postgres must be able to enter the folder.
            let owned = run(Command::new("chown").arg("postgres:postgres").arg(&home), PROGRAM_TIMEOUT)?;
            let opened = run(Command::new("chmod").arg("711").arg(folder), PROGRAM_TIMEOUT)?;
            if !(owned.status.success() && opened.status.success()) {
                return Err(BenchError::Failed("the folder of PostgreSQL cannot be made".to_owned()));
            }
        }
        let log = std::fs::File::create(folder.join("postgres.log"))?;
        let mut initdb = as_postgres(&binaries.join("initdb"));
        initdb
            .arg("--pgdata")
            .arg(&data)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
            .current_dir(&home)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        if !run(&mut initdb, PROGRAM_TIMEOUT)?.status.success() {
            return Err(BenchError::Failed("initdb failed".to_owned()));
        }
        let port = free_address()?.port();
        let server = as_postgres(&binaries.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&home)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100"])
            .args(["-c", "shared_buffers=256MB"])
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let postgres = Postgres { server, binaries, url };
        let started = Instant::now();
        let ready = || {
            let mut command = Command::new(postgres.binaries.join("pg_isready"));
            command.args(["--quiet", "--host=127.0.0.1", &format!("--port={port}")]);
            run(&mut command, POSTGRES_START_TIMEOUT)
        };
        while !ready()?.status.success() {
            if started.elapsed() > POSTGRES_START_TIMEOUT {
                return Err(BenchError::Failed("PostgreSQL does not start".to_owned()));
            }
            tokio::time::sleep(POSTGRES_POLL).await;
        }
        Ok(postgres)
    }

    /// Makes a table with no index but its key.
    pub(crate) fn bare_table(&self) -> Result<(), BenchError> {
        let table = "CREATE TABLE bare (id bigserial PRIMARY KEY, record text NOT NULL)";
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["--quiet", "--no-psqlrc", "--command", table, &self.url]).stdin(Stdio::null());
        if run(&mut psql, PROGRAM_TIMEOUT)?.status.success() {
            Ok(())
        } else {
            Err(BenchError::Failed("psql failed".to_owned()))
        }
    }

    /// Transactions per second that each add this many rows to that table, measured by pgbench.
    pub(crate) fn bare_commits(
        &self,
        folder: &Path,
        record_bytes: usize,
        rows: usize,
        callers: usize,
        time: Duration,
    ) -> Result<f64, BenchError> {
        let script = folder.join("bare.sql");
        let text = format!(
            "INSERT INTO bare (record) SELECT repeat('x', {record_bytes}) FROM generate_series(1, {rows});\n"
        );
        std::fs::write(&script, text)?;
        let mut command = Command::new(self.binaries.join("pgbench"));
        command
            .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
            .arg(format!("--client={callers}"))
            .arg(format!("--time={}", time.as_secs().max(1)))
            .arg("--file")
            .arg(&script)
            .arg(&self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = tokio::task::block_in_place(|| run(&mut command, time + PROGRAM_TIMEOUT))?;
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        let rate =
            output.status.success().then(|| rate_of(&String::from_utf8_lossy(&output.stdout))).flatten();
        rate.ok_or_else(|| BenchError::Failed(format!("pgbench failed: {}", said())))
    }

    /// Waits while the server cleans up behind earlier work, at most for a while.
    pub(crate) async fn clean(&self) {
        let deadline = Instant::now() + CLEAN_TIMEOUT;
        let is_cleaning = |pid| {
            let title = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            title.starts_with(b"postgres: autovacuum worker")
        };
        while self.children().any(is_cleaning) && Instant::now() < deadline {
            tokio::time::sleep(POSTGRES_POLL).await;
        }
    }

    /// Processor seconds of the server and its children, including those that have ended.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds_with_ended(self.server.id()) + self.children().map(cpu_seconds).sum::<f64>()
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        let parent = self.server.id();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(move |pid| parent_of(*pid) == Some(parent))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT is fast and leaves the data in need of recovery, but nobody will read it again.
        let quit = kill_process(Pid::from_child(&self.server), Signal::QUIT);
        if quit.is_err() || wait(&mut self.server, POSTGRES_STOP_TIMEOUT).is_err() {
            // It has ended already, or its children end when they miss it.
            let _ = self.server.kill();
            let _ = self.server.try_wait();
        }
    }
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn newest_binaries() -> Result<PathBuf, BenchError> {
    let missing =
        || BenchError::Failed(format!("no PostgreSQL in {POSTGRES_FOLDER}: apt-get install postgresql"));
    let versions = std::fs::read_dir(POSTGRES_FOLDER).map_err(|_| missing())?;
    let newest = versions.filter_map(Result::ok).max_by_key(|entry| {
        entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).unwrap_or(0)
    });
    Ok(newest.ok_or_else(missing)?.path().join("bin"))
}

/// Transactions per second, from what pgbench says. Its time begins before it connects: on a busy machine
/// none may end, and then it names no rate.
fn rate_of(said: &str) -> Option<f64> {
    let after = |prefix| said.lines().find_map(|line: &str| line.strip_prefix(prefix));
    match after("number of transactions actually processed: ")?.trim() {
        "0" => Some(0.0),
        _ => after("tps = ")?.split(' ').next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_and_nothing_done_is_none_a_second() {
        let done = "duration: 1 s\nnumber of transactions actually processed: 1220\n\
                    latency average = 4 ms\ntps = 1219.500000 (without initial connection time)\n";
        assert_eq!(rate_of(done), Some(1_219.5));
        assert_eq!(rate_of("duration: 1 s\nnumber of transactions actually processed: 0\n"), Some(0.0));
        assert_eq!(rate_of("pgbench: error: connection failed"), None);
    }
}
