//! The scratch store of a run, and the merchants in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use settle_domain::endpoint::{Endpoint, WebhookSecret};
use settle_domain::ids::{MerchantId, OperatorId};
use settle_domain::seams::Clock;
use settle_store::Merchant;
use tempfile::TempDir;

use crate::commands::{CommandFault, Context, key, operator};
use crate::config;
use crate::system::{SystemClock, SystemEntropy};

/// How long a PostgreSQL may take to start.
const POSTGRES_START_TIMEOUT: Duration = Duration::from_secs(30);
const POSTGRES_POLL: Duration = Duration::from_millis(50);
/// Where Debian keeps PostgreSQL's programs.
const POSTGRES_FOLDER: &str = "/usr/lib/postgresql";

/// Which store is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// The embedded store
    Sqlite,
    /// A throw-away PostgreSQL, started from Debian's packages
    Postgres,
}

/// A store of its own, which goes when the run ends.
pub(super) struct Ground {
    folder: TempDir,
    settings: Vec<(String, String)>,
    postgres: Option<Postgres>,
}

/// A merchant and its key.
pub(super) struct Shop {
    pub(super) merchant_id: MerchantId,
    pub(super) api_key: String,
}

impl Ground {
    /// An empty store.
    pub(super) async fn new(kind: StoreKind) -> Result<Ground, CommandFault> {
        let folder = tempfile::tempdir()?;
        let mut settings = vec![
            ("SETTLE_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
            ("SETTLE_WEBHOOK__ALLOW_HTTP".to_owned(), "true".to_owned()),
            ("SETTLE_WEBHOOK__ALLOW_NETWORKS".to_owned(), "127.0.0.0/8".to_owned()),
            ("SETTLE_API__REQUESTS_PER_SECOND".to_owned(), "0".to_owned()),
            ("SETTLE_LOG__LEVEL".to_owned(), "warn".to_owned()),
        ];
        let postgres = match kind {
            StoreKind::Sqlite => None,
            StoreKind::Postgres => Some(Postgres::start(folder.path()).await?),
        };
        if let Some(postgres) = &postgres {
            settings.push(("SETTLE_DATABASE_URL".to_owned(), postgres.url.clone()));
        }
        Ok(Ground { folder, settings, postgres })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The settings the service runs with.
    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The store, opened by the benchmark itself.
    pub(super) async fn open(&self) -> Result<Context, CommandFault> {
        let file = self.folder.path().join("settle.toml");
        std::fs::write(&file, "")?;
        Context::open(config::load(Some(&file), &self.settings)?.0).await
    }

    /// Adds merchants whose endpoints are at the given addresses.
    pub(super) async fn shops(
        &self,
        context: &Context,
        number: usize,
        endpoints: &[SocketAddr],
        path: &str,
    ) -> Result<Vec<Shop>, CommandFault> {
        let now = SystemClock.now();
        let secret = WebhookSecret::parse("benchmark".to_owned());
        let secret = secret.map_err(|_| CommandFault::Refused("no secret".to_owned()))?;
        let mut merchants = Vec::new();
        let mut tx = context.store.begin().await?;
        for position in 0..number {
            let merchant_id = MerchantId::new(now, &SystemEntropy);
            tx.merchant_create(&Merchant { merchant_id, name: "bench".to_owned(), created_at: now }).await?;
            let endpoint = Endpoint {
                url: format!("http://{}{path}", endpoints[position % endpoints.len()]),
                secret: context.ring.seal(merchant_id, &secret, &SystemEntropy),
            };
            tx.endpoint_put(merchant_id, &endpoint).await?;
            merchants.push(merchant_id);
        }
        tx.commit().await?;
        let mut shops = Vec::new();
        for merchant_id in merchants {
            let (_, credential) = key::make(context, merchant_id, None).await?;
            shops.push(Shop { merchant_id, api_key: credential.expose().to_owned() });
        }
        Ok(shops)
    }

    /// Adds an operator; gives its token.
    pub(super) async fn operator(&self, context: &Context) -> Result<String, CommandFault> {
        let name = OperatorId::new(SystemClock.now(), &SystemEntropy).to_string();
        let (_, credential) = operator::make(context, name).await?;
        Ok(credential.expose().to_owned())
    }

    /// Processor seconds of the database, where it is a process of its own.
    pub(super) fn database_cpu_seconds(&self) -> Option<f64> {
        self.postgres.as_ref().map(Postgres::cpu_seconds)
    }
}

/// A throw-away PostgreSQL with its own defaults: what is committed is on the disk.
struct Postgres {
    server: Child,
    url: String,
}

impl Postgres {
    async fn start(folder: &Path) -> Result<Postgres, CommandFault> {
        let binaries = newest_binaries()?;
        let home = folder.join("postgres");
        std::fs::create_dir(&home)?;
        let data = home.join("data");
        if is_root() {
            // PostgreSQL refuses to be root, and its user must get there.
            let owned = Command::new("chown").arg("postgres:postgres").arg(&home).status()?;
            let opened = Command::new("chmod").arg("711").arg(folder).status()?;
            if !(owned.success() && opened.success()) {
                return Err(CommandFault::Refused("the folder of PostgreSQL cannot be made".to_owned()));
            }
        }
        let log = std::fs::File::create(folder.join("postgres.log"))?;
        let made = as_postgres(&binaries.join("initdb"))
            .arg("--pgdata")
            .arg(&data)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
            .current_dir(&home)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .status()?;
        if !made.success() {
            return Err(CommandFault::Refused("initdb failed".to_owned()));
        }
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
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
        let postgres = Postgres { server, url: format!("postgres://postgres@127.0.0.1:{port}/postgres") };
        let started = Instant::now();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let ready = || {
            Command::new(binaries.join("pg_isready"))
                .args(["--quiet", "--host=127.0.0.1", &format!("--port={}", address.port())])
                .status()
        };
        while !ready()?.success() {
            if started.elapsed() > POSTGRES_START_TIMEOUT {
                return Err(CommandFault::Refused("PostgreSQL does not start".to_owned()));
            }
            tokio::time::sleep(POSTGRES_POLL).await;
        }
        Ok(postgres)
    }

    /// Of the server and its children.
    fn cpu_seconds(&self) -> f64 {
        let parent = self.server.id();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let own = pids.filter(|pid| *pid == parent || parent_of(*pid) == Some(parent));
        own.map(super::service::cpu_seconds).sum()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT would leave the data in need of recovery, which nobody will read again.
        let _ = Command::new("kill").args(["-QUIT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
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

fn newest_binaries() -> Result<PathBuf, CommandFault> {
    let missing =
        || CommandFault::Refused(format!("no PostgreSQL in {POSTGRES_FOLDER}: apt-get install postgresql"));
    let versions = std::fs::read_dir(POSTGRES_FOLDER).map_err(|_| missing())?;
    let newest = versions.filter_map(Result::ok).max_by_key(|entry| {
        entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).unwrap_or(0)
    });
    Ok(newest.ok_or_else(missing)?.path().join("bin"))
}
