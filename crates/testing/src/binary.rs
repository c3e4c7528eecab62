//! Runs the binary in a folder of its own, without the surrounding environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use serde_json::Value;
use settle_store::Store;
use settle_store_postgres::PostgresStore;
use settle_store_sqlite::SqliteStore;
use tempfile::TempDir;

/// The binary, its data folder, its store, and its settings.
pub struct Settle {
    binary: PathBuf,
    folder: TempDir,
    database_url: String,
    variables: Vec<(String, String)>,
}

impl Settle {
    /// On SQLite. The path of the binary is `env!("CARGO_BIN_EXE_settle")`.
    pub fn sqlite(binary: &str) -> Settle {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database_url = format!("sqlite://{}", folder.path().join("data/settle.db").display());
        // The default is the file in the data folder, so no setting is needed.
        Settle { binary: binary.into(), folder, database_url, variables: Vec::new() }.data_dir()
    }

    /// On PostgreSQL, in a database of its own.
    pub fn postgres(binary: &str) -> Settle {
        let database_url = block_on(settle_store_postgres::testing::scratch_url());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let variables = vec![("SETTLE_DATABASE_URL".to_owned(), database_url.clone())];
        Settle { binary: binary.into(), folder, database_url, variables }.data_dir()
    }

    fn data_dir(self) -> Settle {
        let data_dir = self.data().display().to_string();
        self.with("SETTLE_DATA_DIR", &data_dir)
    }

    /// Sets an environment variable, and returns itself.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Settle {
        self.set(name, value);
        self
    }

    /// Sets an environment variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes a file into the folder in which the binary runs.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    /// A command, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).stdin(Stdio::null()).output().expect("the binary runs").into()
    }

    /// Runs a command to its end, with this text on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("it was asked for");
        stdin.write_all(input.as_bytes()).expect("the binary reads");
        drop(stdin);
        child.wait_with_output().expect("the binary ends").into()
    }

    /// Adds a merchant; returns its id.
    pub fn merchant(&self) -> String {
        let created = self.run(&["merchant", "create", "Café Ñandú", "--json"]).json();
        created["merchant_id"].as_str().expect("an id").to_owned()
    }

    /// Makes a key; returns its id and its plain text.
    pub fn key(&self, merchant: &str) -> (String, String) {
        let created = self.run(&["key", "create", merchant, "--json"]).json();
        let text = |field: &str| created[field].as_str().expect("a string").to_owned();
        (text("key_id"), text("api_key"))
    }

    /// Opens the store that the binary uses.
    pub fn store(&self) -> Arc<dyn Store> {
        if self.database_url.starts_with("sqlite") {
            Arc::new(SqliteStore::new(&self.database_url).expect("a file"))
        } else {
            Arc::new(PostgresStore::patient(&self.database_url, 2).expect("a URL"))
        }
    }
}

/// Waits for a future, in a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; none if a signal ended the command.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Ran {
    /// The standard output of a command that must have succeeded.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }

    /// The JSON document that a command printed, which must have succeeded.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }

    /// Why the command failed. It must have printed no result.
    #[track_caller]
    pub fn failed(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{self:?}");
        assert!(self.stderr.starts_with("settle: "), "{self:?}");
        &self.stderr
    }
}

/// The keys of a JSON object, sorted.
#[track_caller]
pub fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
