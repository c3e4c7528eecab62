//! The commands, one file each, and the error that each of them can end with.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use settle_wiring::config::{self, Config, ConfigError, Loaded};
use settle_wiring::{Context, User};

use crate::logging;

mod access;
mod config_show;
mod corridor;
mod delivery;
mod demo;
mod desk;
mod doctor;
mod key;
mod ledger;
mod listen;
mod master_key;
mod merchant;
mod migrate;
mod operator;
mod payment;
mod progress;
mod provider;
mod sandbox;
mod serve;
mod settlement;
mod shell;

/// Merchant settlement: what was settled, and signed notifications of it.
///
/// Starts with nothing set up: `settle serve` keeps everything in the folder `data`.
#[derive(Debug, Parser)]
#[command(name = "settle", version = env!("SETTLE_VERSION"), max_term_width = 100)]
pub struct Cli {
    /// The settings file [default: settle.toml, if there is one]
    #[arg(long, global = true, env = "SETTLE_CONFIG", value_name = "FILE", hide_env = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole service at work, with nothing to set up
    Demo(demo::Demo),
    /// Run the service
    Serve(serve::Serve),
    /// Bring the database to this version's schema
    Migrate,
    /// Check the settings, the data folder and the database, and say what to do
    Doctor(doctor::Doctor),
    /// Look at the settings
    #[command(subcommand)]
    Config(config_show::ConfigCommand),
    /// Add and list merchants
    #[command(subcommand)]
    Merchant(merchant::MerchantCommand),
    /// Add, list and revoke the API keys of a merchant
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Add, list and revoke operators
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    /// Make a master key, see what needs which, and seal everything anew
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Agree on what merchants get for what comes in
    #[command(subcommand)]
    Corridor(corridor::CorridorCommand),
    /// Hand pay-ins to the engine, see what became of them, and act on those that need a person
    Payment(payment::PaymentCommand),
    /// See what is on the accounts, and whether the books and the providers agree
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Import completed settlements
    #[command(subcommand)]
    Settlement(settlement::SettlementCommand),
    /// Look at the deliveries of all merchants, and send dead ones again
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
    /// Receive notifications on this machine, verify and show them
    Listen(listen::Listen),
    /// Look at providers, pause them, and try whether one keeps to the protocol
    Provider(provider::ProviderCommand),
    /// Run a provider of which nobody gets money, for development and tests
    Sandbox(sandbox::SandboxCommand),
    /// Measure how fast this machine is, on a store of its own
    Bench(settle_bench::Bench),
    /// Print a script that completes commands in a shell
    Completions(shell::Completions),
    /// Write a manual page for each command
    Man(shell::Man),
    /// Print the OpenAPI document
    #[command(hide = true)]
    Openapi {
        /// The operators' instead of the merchants'
        #[arg(long, conflicts_with = "provider")]
        operator: bool,
        /// The provider protocol's instead of the merchants'
        #[arg(long)]
        provider: bool,
    },
}

/// Why a command failed. `settle` prints it as one line on standard error.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The parts cannot be put together.
    #[error("{}", explained(.0))]
    Wiring(#[from] settle_wiring::WiringError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] logging::LogError),
    /// A merchant, a key or an operator cannot be made.
    #[error("{}", explained(.0))]
    Account(#[from] settle_accounts::AccountError),
    /// The benchmark failed before its end.
    #[error("{}", explained(.0))]
    Bench(#[from] settle_bench::BenchError),
    /// The database failed.
    #[error("{}", explained(.0))]
    Store(#[from] settle_store::StoreError),
    /// A file, a socket or a process could not be read, written or started.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The command cannot do what it was asked to do; the text says why.
    #[error("{0}")]
    Refused(String),
}

/// An error with its causes, in one line.
fn explained(fault: &dyn std::error::Error) -> String {
    let mut text = fault.to_string();
    let mut source = fault.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Keeps master keys and opened secrets out of core dumps, and out of reach of a debugger of the same user. A
/// system that refuses either loses a protection, not the service.
pub fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // Where core dumps go to a program, the limit does not hold; this does.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Takes memory from the system in small pages. In huge ones the allocator's scattered pages fill three times
/// the room that they need: an idle service takes 47 MiB instead of 29, and nothing becomes faster. A system
/// that refuses it loses room, not the service.
pub fn keep_memory_small() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Runs a command. Its result goes to standard output, everything else to standard error.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::from);
    let done = done.and_then(|runtime| {
        let done = runtime.block_on(dispatch(cli));
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(code) => code,
        // Whoever reads the result, such as `head`, has seen enough.
        Err(CommandError::Io(fault)) if fault.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&fault);
            ExitCode::FAILURE
        }
    }
}

/// The one place where a command says why it failed. Where nobody reads it, the exit code is enough.
fn complain(fault: &CommandError) {
    let _ = crate::output::print_note(&format!("settle: {fault}"));
}

async fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
    // These commands need no settings, so bad settings must not make them fail.
    match cli.command {
        Command::Openapi { provider: true, .. } => {
            let text = settle_sandbox::openapi_text();
            crate::output::print_text(&text.map_err(|fault| CommandError::Refused(fault.to_string()))?)?;
        }
        Command::Openapi { operator, .. } => {
            let text =
                if operator { settle_api::operator_openapi_text() } else { settle_api::openapi_text() };
            crate::output::print_text(text.map_err(|fault| CommandError::Refused(fault.to_string()))?)?;
        }
        Command::Completions(command) => command.run()?,
        Command::Man(command) => command.run()?,
        Command::Listen(command) => command.run().await?,
        Command::Demo(command) => Box::pin(command.run()).await?,
        Command::Sandbox(command) => command.run().await?,
        Command::Provider(command) => return command.run(cli.config.as_deref()).await,
        Command::Bench(command) => command.run().await?,
        command => return dispatch_configured(command, cli.config.as_deref()).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings: a file, and the environment.
fn settings(file: Option<&Path>) -> Result<Loaded, ConfigError> {
    config::load(file, &config::environment(std::env::vars_os())?)
}

/// Does something with the store, and closes it: on SQLite whoever writes the journal back ends first. If no
/// other process has the file open, somebody who then copies it has everything.
async fn on_store<T>(
    config: Config,
    user: User,
    run: impl AsyncFnOnce(Context) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let context = Context::open(config, user).await?;
    let store = Arc::clone(&context.store);
    let done = run(context).await;
    store.close().await;
    done
}

async fn dispatch_configured(command: Command, file: Option<&Path>) -> Result<ExitCode, CommandError> {
    let Loaded { config, sources, warnings } = settings(file)?;
    logging::start(&config)?;
    // The doctor has them among its findings.
    if !matches!(command, Command::Doctor(_)) {
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
    }
    let user = match &command {
        Command::Merchant(command) => command.user(),
        Command::Key(command) => command.user(),
        Command::Operator(command) => command.user(),
        Command::Delivery(command) => command.user(),
        Command::Corridor(command) => command.user(),
        Command::Ledger(command) => command.user(),
        _ => User::Command,
    };
    match command {
        Command::Serve(command) => command.run(config, &sources).await?,
        Command::Migrate => migrate::run(&config).await?,
        Command::Doctor(command) => return command.run(&config, warnings).await,
        Command::Config(command) => command.run(&config, &sources)?,
        Command::Merchant(command) => on_store(config, user, |context| command.run(context)).await?,
        Command::Key(command) => on_store(config, user, |context| command.run(context)).await?,
        Command::Operator(command) => on_store(config, user, |context| command.run(context)).await?,
        Command::MasterKey(command) => command.run(config).await?,
        Command::Corridor(command) => on_store(config, user, |context| command.run(context)).await?,
        Command::Ledger(command) => return on_store(config, user, |context| command.run(context)).await,
        Command::Payment(command) => command.run(&config).await?,
        Command::Settlement(command) => on_store(config, user, |context| command.run(context)).await?,
        Command::Bench(_)
        | Command::Completions(_)
        | Command::Demo(_)
        | Command::Listen(_)
        | Command::Man(_)
        | Command::Provider(_)
        | Command::Sandbox(_)
        | Command::Openapi { .. } => {}
        Command::Delivery(command) => on_store(config, user, |context| command.run(context)).await?,
    }
    Ok(ExitCode::SUCCESS)
}
