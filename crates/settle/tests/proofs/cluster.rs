//! A PostgreSQL that a test may restart: it must not disturb the one that the tests share.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use settle_testing::serving::{Signal, send_signal};

/// A PostgreSQL server that ends with the test.
pub struct Cluster {
    pub url: String,
    script: Child,
    messages: Lines<BufReader<ChildStderr>>,
    /// Closing it ends the command that the script runs, and so the script.
    stdin: Option<ChildStdin>,
}

impl Cluster {
    /// Starts a server that keeps committed data through a crash.
    pub fn start() -> Cluster {
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-postgres"))
            .args(["--durable", "sh", "-c", "echo \"$TEST_POSTGRES_URL\"; exec cat >/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the script runs");
        let stdin = script.stdin.take();
        let stdout = BufReader::new(script.stdout.take().expect("it was asked for"));
        let messages = BufReader::new(script.stderr.take().expect("it was asked for")).lines();
        let url = stdout.lines().next().expect("a line, unless it does not start").expect("UTF-8");
        Cluster { url, script, messages, stdin }
    }

    /// Restarts the server in order: it closes its connections and writes everything to the disk.
    pub fn restart(&mut self) {
        self.signal(Signal::USR1, "with-postgres: restarted by SIGINT");
    }

    /// Crashes the server, which recovers from its log.
    pub fn crash(&mut self) {
        self.signal(Signal::USR2, "with-postgres: restarted by SIGQUIT");
    }

    /// Sends a signal to the script, and waits until the script says that it is done.
    fn signal(&mut self, signal: Signal, done: &str) {
        send_signal(&self.script, signal);
        let message = self.messages.next().expect("a message, unless it does not start").expect("UTF-8");
        assert_eq!(message, done);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended already.
        let _ = self.script.wait();
    }
}
