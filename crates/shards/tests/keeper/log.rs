//! What operations read of a keeper that does not serve.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use settle_shards::keeper::Standing;
use tracing_subscriber::fmt::MakeWriter;

use crate::database::Database;
use crate::{renewed, settle_away};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    /// Takes down what this thread logs, which is all that a test with one thread does.
    fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
        (log.clone(), tracing::subscriber::set_default(lines.with_writer(log).finish()))
    }

    /// How many warnings say this.
    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().filter(|line| line.contains(text)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn who_stands_by_says_so_once_and_who_serves_warns_of_nothing() {
    let (log, _kept) = Log::start();
    let (database, _says) = Database::new();
    database.is_taken.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let (tenant, mut standing) = (keeper.tenant(), keeper.standing());
    tokio::spawn(keeper.run());
    standing.wait_for(|standing| *standing == Standing::StandingBy).await.unwrap();
    settle_away().await;
    assert_eq!((log.count("this one stands by"), log.count("WARN")), (1, 1));
    database.is_taken.store(false, Ordering::SeqCst);
    renewed(&tenant).await;
    standing.wait_for(|standing| *standing == Standing::Present).await.unwrap();
    assert_eq!(log.count("WARN"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_is_warned_of() {
    let (log, _kept) = Log::start();
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    renewed(&tenant).await;
    assert_eq!(log.count("WARN"), 0);
    database.hangs.store(true, Ordering::SeqCst);
    settle_away().await;
    assert!(log.count("the keeper of shards failed to renew the lease") > 0);
}
