//! `settle demo`: its texts are true, and it leaves nothing behind.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use settle_testing::binary::Settle;
use settle_testing::serving::{Answer, ask};
use tempfile::TempDir;

use crate::BINARY;
use crate::listening::Lines;

/// A running demo, killed at the end of the test unless it has ended before.
struct Demo {
    child: Child,
    stdout: Lines,
    stderr: Lines,
    /// The folder in which the demo makes its temporary folder.
    folder: TempDir,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<&str> = ["demo"].iter().chain(arguments).copied().collect();
        let mut command = Settle::sqlite(BINARY).command(&arguments);
        // The demo must ignore the settings of the machine.
        command.env("TMPDIR", folder.path()).env("SETTLE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none");
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Demo { child, stdout, stderr, folder }
    }

    /// The next line that contains all of these texts.
    fn line_with(&mut self, texts: &[&str]) -> String {
        loop {
            let line = self.stdout.next();
            if texts.iter().all(|text| line.contains(text)) {
                return line;
            }
        }
    }

    /// Waits until the demo has ended in order, and checks that it left nothing.
    fn ended(mut self) {
        self.stdout.finish();
        self.stderr.finish();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{:#?}", self.stderr.read);
        let last = self.stdout.read.last().map(String::as_str);
        assert_eq!(last, Some("The demo has ended, and nothing of it is left."));
        assert_eq!(entries(self.folder.path()), 0);
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Sends the request of a `curl` line that the demo prints: `curl -s [-X METHOD] URL -H 'Authorization:
/// Bearer KEY'`.
fn curl(line: &str) -> Answer {
    let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let after = |word: &str| words.iter().position(|found| *found == word).map(|place| words[place + 1]);
    let url = words.iter().find_map(|word| word.strip_prefix("http://")).unwrap();
    let (address, path) = url.split_once('/').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    ask(address, after("-X").unwrap_or("GET"), &format!("/{path}"), after("Bearer").unwrap(), "")
}

/// The delivery id at the end of a line.
fn delivery(line: &str) -> String {
    line.rsplit(' ').next().unwrap().to_owned()
}

/// The printed commands work, notifications arrive, and those of the flaky shop are retried until they
/// succeed.
#[test]
fn it_tells_the_story_of_a_delivery() {
    let mut demo = Demo::start(&[]);
    let commands: Vec<String> = (0..3).map(|_| demo.line_with(&["  curl -s "])).collect();
    let token = demo.line_with(&["  op_"]);
    assert!(entries(demo.folder.path()) > 0, "it keeps its data here");
    let arrived = demo.line_with(&["arrived ", "good shop", "attempt 1, answered 200"]);
    let [settlements, deliveries, test] = [0, 1, 2].map(|number: usize| curl(&commands[number]));
    assert_eq!(settlements.json()["total"], 1, "{settlements:?}");
    assert_eq!(deliveries.json()["deliveries"][0]["delivery_id"], Value::from(delivery(&arrived)));
    assert_eq!(test.json()["delivered"], true, "{test:?}");
    demo.line_with(&["test ", "good shop"]);
    assert_eq!(token.trim().len(), 67, "{token}");

    let failed = demo.line_with(&["arrived ", "flaky shop", "attempt 1, answered 500"]);
    let id = delivery(&failed);
    demo.line_with(&["endpoint ", "flaky shop", "is well again"]);
    demo.line_with(&["again ", "flaky shop", "answered 200", &id]);

    let script = format!("kill -INT {}", demo.child.id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    demo.ended();
}

#[test]
fn it_ends_by_itself_after_the_time_given() {
    Demo::start(&["--for", "2s"]).ended();
}
