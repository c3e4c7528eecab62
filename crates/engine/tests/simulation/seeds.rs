//! Runs seeds one after the other, each on a database of its own, and names the one that fails.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use settle_store::Store;
use settle_store_sqlite::SqliteStore;
use tokio::runtime::{Builder, Runtime};

use crate::scenario::{Backend, Simulation};

/// The folder of the databases: memory that looks like a disk, if the machine has it.
const SHARED_MEMORY: &str = "/dev/shm";
/// On a database with a server real time passes while it works. Virtual time then goes on by itself, so much
/// in so much.
const VIRTUAL_STEP: Duration = Duration::from_millis(20);
const REAL_STEP: Duration = Duration::from_millis(2);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

fn sqlite(file: &Path) -> SqliteStore {
    SqliteStore::new(&format!("sqlite://{}", file.display())).expect("a URL")
}

/// A migrated database, of which each seed gets a copy.
fn template() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(SHARED_MEMORY).or_else(|_| tempfile::tempdir()).expect("a folder");
    runtime().block_on(async {
        let store = sqlite(&folder.path().join("template.db"));
        store.migrate().await.expect("an empty database");
        store.close().await;
    });
    folder
}

/// Runs a seed on a copy of the template, and gives its story.
fn run_seed(seed: u64, folder: &Path) -> Vec<String> {
    let own = tempfile::tempdir_in(folder).expect("a folder");
    let file = own.path().join("settle.db");
    std::fs::copy(folder.join("template.db"), &file).expect("a copy");
    let runtime = runtime();
    let story = runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(sqlite(&file));
        simulate(seed, store, Backend::Sqlite).await
    });
    drop(runtime);
    story
}

async fn simulate(seed: u64, store: Arc<dyn Store>, backend: Backend) -> Vec<String> {
    let simulation = Arc::new(Simulation::new(seed, store, backend));
    let passing = (backend == Backend::Postgres).then(|| tokio::spawn(let_time_pass()));
    // In a task of its own, so that a failure is reported with its seed and its story.
    let mut ended = tokio::spawn(simulation.clone().run()).await;
    if ended.is_ok() {
        ended = tokio::spawn(simulation.clone().judge()).await;
    }
    if let Some(passing) = passing {
        passing.abort();
    }
    let world = &simulation.world;
    let wrongs = world.wrongs();
    if let Err(fault) = ended {
        panic!("seed {seed} fails: {fault}\n{}", world.last_lines());
    }
    assert!(wrongs.is_empty(), "seed {seed} fails:\n{}\n{}", world.last_lines(), wrongs.join("\n"));
    world.story()
}

/// While a blocking thread of the runtime works, the clock stands still but for these steps.
async fn let_time_pass() {
    tokio::time::pause();
    loop {
        let real = tokio::task::spawn_blocking(|| {
            let (_end, ended) = mpsc::channel::<()>();
            ended.recv_timeout(REAL_STEP)
        });
        let _ = real.await;
        tokio::time::advance(VIRTUAL_STEP).await;
    }
}

pub fn run_seeds(seeds: Range<u64>) {
    let folder = template();
    for seed in seeds {
        run_seed(seed, folder.path());
    }
}

pub fn story_of(seed: u64) -> Vec<String> {
    run_seed(seed, template().path())
}

pub fn run_on_postgres(seeds: Range<u64>) {
    for seed in seeds {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let scratch = settle_store_postgres::testing::scratch().await.migrated().await;
            simulate(seed, scratch.share(), Backend::Postgres).await;
        });
    }
}
