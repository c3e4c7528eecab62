//! `settle demo`: its texts are true, and it leaves nothing behind.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use settle_testing::binary::{Settle, keys};
use settle_testing::serving::{Answer, Signal, ask, get, send_signal};
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
        Demo::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Demo {
        let (mut child, folder) = Demo::spawn(arguments, variables);
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Demo { child, stdout, stderr, folder }
    }

    /// A demo and the folder that it works in.
    fn spawn(arguments: &[&str], variables: &[(&str, &str)]) -> (Child, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<&str> = ["demo"].iter().chain(arguments).copied().collect();
        let mut command = Settle::sqlite(BINARY).command(&arguments);
        // The demo must ignore the settings of the machine.
        command.env("TMPDIR", folder.path()).env("SETTLE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none");
        command.envs(variables.iter().copied()).current_dir(folder.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (child, folder)
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

/// The words of a line that the demo prints, as bash reads them after it was pasted.
fn pasted(line: &str) -> Vec<String> {
    let script = format!("curl() {{ printf '%s\\0' \"$@\"; }}\n{line}\n");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(is_alike_in_every_shell(line), "{line}");
    String::from_utf8(output.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect()
}

/// Whether zsh and fish read the line as bash does: outside of single quotes nothing has a meaning to any of
/// them, and inside of them there is no backslash, which fish would read.
fn is_alike_in_every_shell(line: &str) -> bool {
    line.trim().split('\'').enumerate().all(|(part, text)| {
        let is_bare = |character: char| character.is_ascii_alphanumeric() || " _-./:@+,".contains(character);
        if part % 2 == 0 { text.chars().all(is_bare) } else { !text.contains('\\') }
    })
}

/// Sends the request of a `curl` line that the demo prints.
fn curl(line: &str) -> Answer {
    let words = pasted(line);
    let after =
        |word: &str| words.iter().position(|found| found == word).map(|place| words[place + 1].as_str());
    let url = words.iter().find_map(|word| word.strip_prefix("http://")).unwrap();
    let (address, path) = url.split_once('/').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let credential = after("-H").and_then(|header| header.strip_prefix("Authorization: Bearer ")).unwrap();
    let method = after("-X").unwrap_or("GET");
    ask(address, method, &format!("/{path}"), credential, after("-d").unwrap_or(""))
}

/// The id at the end of a line.
fn last_word(line: &str) -> String {
    line.rsplit(' ').next().unwrap().to_owned()
}

/// The printed commands work, notifications arrive, those of the flaky shop are retried until they succeed,
/// and one of the gone shop dies and can be sent again.
#[test]
fn it_tells_the_story_of_a_delivery() {
    let mut demo = Demo::start(&[]);
    let commands: Vec<String> = (0..5).map(|_| demo.line_with(&["  curl -s "])).collect();
    assert!(entries(demo.folder.path()) > 0, "it keeps its data here");
    let arrived = demo.line_with(&["arrived ", "good shop", "attempt 1, answered 200"]);
    let [settlements, deliveries, test, dead, settled] =
        [0, 1, 2, 3, 4].map(|number: usize| curl(&commands[number]));
    assert_eq!(settlements.json()["total"], 1, "{settlements:?}");
    assert_eq!(deliveries.json()["deliveries"][0]["delivery_id"], Value::from(last_word(&arrived)));
    assert_eq!(test.json()["delivered"], true, "{test:?}");
    assert_eq!(dead.json()["total"], 0, "{dead:?}");
    assert_eq!(settled.json()["payments"][0]["created"], true, "{settled:?}");
    demo.line_with(&["test ", "good shop"]);

    let failed = demo.line_with(&["arrived ", "flaky shop", "attempt 1, answered 500"]);
    let id = last_word(&failed);
    demo.line_with(&["endpoint ", "flaky shop", "is well again"]);
    demo.line_with(&["again ", "flaky shop", "answered 200", &id]);

    demo.line_with(&["died ", "gone shop", "given up after 4 attempts (connection: refused), delivery "]);
    let again = curl(&demo.stdout.next());
    assert_eq!((again.status, &again.json()["status"]), (200, &Value::from("pending")), "{again:?}");
    assert_eq!(curl(&commands[3]).json()["total"], 0, "it is not dead any more");
    let all = demo.stdout.read.join("\n");
    assert!(!all.contains('\u{1b}'), "a pipe gets no colours: {all}");

    send_signal(&demo.child, Signal::INT);
    demo.ended();
}

/// The answer to one payout is lost and the provider asked for it, and the provider stumbles over another and
/// recovers. Both are settled as all the others are, and the provider itself says that none was paid twice.
#[test]
fn it_tells_that_nothing_is_paid_twice() {
    let mut demo = Demo::start(&["--for", "90s"]);
    let lost =
        demo.line_with(&["lost ", "good shop", "nothing is sent again, the provider is asked, payment "]);
    let asked = demo.line_with(&["settled ", "good shop", &last_word(&lost)]);
    assert!(asked.contains(" USDC, payment "), "{asked}");
    demo.line_with(&["came in ", "good shop", "249.90 EUR"]);
    demo.line_with(&["blocked ", "good shop", "nothing was done, and it is tried again"]);
    demo.line_with(&["settled ", "good shop", "249.90 EUR → "]);
    demo.line_with(&["provider ", " payouts made, none of them twice"]);
    let told = |word: &str| {
        let lines = demo.stdout.read.iter().filter_map(|line| line.split_whitespace().nth(1));
        lines.filter(|found| *found == word).count()
    };
    assert_eq!((told("stopped"), told("failed")), (0, 0), "{:#?}", demo.stdout.read);
    assert!(told("settled") >= 6, "the six that came first: {:#?}", demo.stdout.read);
    assert!(!demo.stdout.read.iter().any(|line| line.contains("MORE THAN ONCE")));

    send_signal(&demo.child, Signal::INT);
    demo.ended();
}

#[test]
fn it_ends_by_itself_after_the_time_given() {
    Demo::start(&["--for", "2s"]).ended();
}

#[test]
fn json_is_one_line_for_a_program_and_the_story_goes_aside() {
    let mut demo = Demo::start(&["--json", "--for", "6s"]);
    let access: Value = serde_json::from_str(&demo.stdout.next()).unwrap();
    assert_eq!(keys(&access), ["api_key", "api_url", "merchant_id", "operator_token", "operator_url"]);
    let api: SocketAddr =
        access["api_url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    assert_eq!(get(api, "/v1/settlements", access["api_key"].as_str().unwrap()).status, 200);
    demo.stdout.finish();
    demo.stderr.finish();
    assert_eq!((demo.child.wait().unwrap().code(), demo.stdout.read.len()), (Some(0), 1));
    assert!(demo.stderr.read.iter().any(|line| line.contains("arrived ")), "{:#?}", demo.stderr.read);
    assert_eq!(entries(demo.folder.path()), 0);
}

#[test]
fn colours_are_for_those_who_want_them() {
    let green = "\u{1b}[32marrived";
    for (arguments, variables, coloured) in [
        (&["--color", "always"][..], &[("NO_COLOR", "1")][..], true),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let mut demo = Demo::start_with(&[&["--for", "30s"], arguments].concat(), variables);
        let line = demo.line_with(&["arrived", "good shop"]);
        assert_eq!(line.contains(green), coloured, "{arguments:?} {variables:?}: {line:?}");
        assert_eq!(line.contains('\u{1b}'), coloured, "{line:?}");
    }
}

/// As `settle demo | head -1`.
#[test]
fn it_ends_in_order_when_nobody_reads_it_any_more() {
    let mut demo = Demo::spawn(&[], &[]);
    let mut first = [0; 1];
    demo.0.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = demo.0.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert_eq!(entries(demo.1.path()), 0);
}
