//! The benchmark. It measures the real service in a process and on a store of its own, beside the limits of
//! the same machine in the same run.
//!
//! | module | what it does |
//! |---|---|
//! | `scratch`, `postgres` | the scratch store and the merchants in it |
//! | `history` | a store with many rows |
//! | `service`, `ports` | the real `serve`, its processor time and memory |
//! | `providers` | the real `sandbox`, and a provider that never answers |
//! | `process`, `part`, `bare_file` | child processes, and the tools that measure the limits |
//! | `load`, `client` | posts settlements and payments |
//! | `arrivals` | receives notifications |
//! | `scenarios` | the measurements |
//! | `durations` | percentiles |
//! | `progress`, `figures`, `report`, `plot` | shows and writes the results |

mod arrivals;
mod bare_file;
mod client;
mod durations;
mod error;
mod figures;
mod history;
mod load;
mod part;
mod plot;
mod ports;
mod postgres;
mod process;
mod progress;
mod providers;
mod report;
mod scenarios;
mod scratch;
mod service;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

pub use error::BenchError;

use figures::{Figure, table};
use history::History;
use progress::Progress;
use report::{Machine, Report, Timing};
use scenarios::{Measured, Plan, Samples, Scale};
use scratch::StoreKind;

/// The usual run, whose figures the documentation shows.
const USUAL: Scale = Scale {
    notifications: 100_000,
    merchants: 100,
    steady: Duration::from_secs(10),
    flood: Duration::from_secs(10),
    patience: Duration::from_mins(5),
    sizes: &[10_000, 100_000, 1_000_000],
    samples: Samples { rounds: 5, records: 12, record_rows: 100, reads: 600 },
    payments: 100_000,
    settled: &[10_000, 100_000],
    settled_sample: 2_000,
};
/// The same with ten times more rows in the store, which takes much time and disk space.
const FULL: Scale = Scale {
    sizes: &[10_000, 100_000, 1_000_000, 10_000_000],
    settled: &[10_000, 100_000, 1_000_000],
    ..USUAL
};
/// Just enough to see that the benchmark works and that nothing is lost.
const QUICK: Scale = Scale {
    notifications: 600,
    merchants: 20,
    steady: Duration::from_millis(500),
    flood: Duration::from_millis(300),
    patience: Duration::from_secs(30),
    sizes: &[100, 1_000],
    samples: Samples { rounds: 1, records: 8, record_rows: 5, reads: 40 },
    payments: 100,
    settled: &[40, 80],
    settled_sample: 10,
};

/// Measure how fast this machine is, on a store of its own
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    part: Option<part::Part>,
    /// The store to measure
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
    /// Only these scenarios [default: all of them]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SCENARIO,…")]
    scenario: Vec<Scenario>,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw arrivals and latencies over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Measure little: to see that it runs
    #[arg(long)]
    quick: bool,
    /// Also measure growth with 10 million rows, and with 1 million payments
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// How many payments `settle` takes through their whole life [default: 100,000; 100 if quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    payments: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Notifications recorded in batches, and one a call
    Deliver,
    /// From the call to the arrival, at 50/s and at 500/s
    Latency,
    /// A kill -9 in the middle, and a restart at once
    Recovery,
    /// One merchant's endpoint hangs: what the others notice
    Isolation,
    /// Payments through their whole life, beside the sandbox: speed, what one costs, a provider that hangs
    Settle,
    /// Pages of 50
    Lists,
    /// The same page, claim and record with more and more rows in the store
    Growth,
    /// From the start of the process to ready, and idle memory
    Start,
    /// What the same client does without store and signing, and the store without us
    Limits,
}

impl Bench {
    /// Measures what was asked for, and prints the figures.
    pub async fn run(self) -> Result<(), BenchError> {
        if let Some(part) = self.part {
            return part.run().await;
        }
        for file in self.json.iter().chain(&self.plot) {
            let opened = std::fs::File::options().create(true).append(true).open(file);
            opened.map_err(|fault| BenchError::Failed(format!("{}: {fault}", file.display())))?;
        }
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut terminated = signal(SignalKind::terminate())?;
        // A signal must not leave processes or gigabytes of scratch stores behind.
        tokio::select! {
            measured = self.measure_all() => measured,
            _ = tokio::signal::ctrl_c() => Err(interrupted()),
            _ = hung_up.recv() => Err(interrupted()),
            _ = terminated.recv() => Err(interrupted()),
        }
    }

    async fn measure_all(&self) -> Result<(), BenchError> {
        let scale = match (self.quick, self.full) {
            (true, _) => QUICK,
            (false, true) => FULL,
            (false, false) => USUAL,
        };
        let payments = self.payments.and_then(|number| usize::try_from(number).ok());
        let scale = Scale { payments: payments.unwrap_or(scale.payments), ..scale };
        let plan = Plan { store: self.store, scale, progress: Progress::new() };
        let (mut measured, mut timings) = (Measured::default(), Vec::new());
        let started = Instant::now();
        // `start` reuses the store that `growth` has filled.
        let (mut history, mut failed) = (None, None);
        for scenario in Scenario::value_variants() {
            if !self.scenario.is_empty() && !self.scenario.contains(scenario) {
                continue;
            }
            let begun = Instant::now();
            match self.measure(*scenario, &plan, &mut history).await {
                Ok(more) => measured.add(more),
                // The figures measured so far are worth showing.
                Err(fault) => {
                    failed = Some(fault);
                    break;
                }
            }
            let (scenario, seconds) = (scenario.name(), begun.elapsed().as_secs_f64());
            timings.push(Timing { scenario, seconds });
        }
        plan.progress.finish();
        let mut figures = std::mem::take(&mut measured.figures);
        figures.extend(ratio(&figures));
        // Some scenarios also measure a figure of another one: it is listed with that one.
        figures.sort_by_key(|figure| Scenario::position(figure.scenario));
        print(&mut std::io::stdout().lock(), &table(&figures))?;
        if let Some(file) = &self.json {
            let report = Report {
                version: env!("CARGO_PKG_VERSION"),
                store: self.store,
                quick: self.quick,
                full: self.full,
                debug: cfg!(debug_assertions),
                machine: Machine::this(),
                seconds: started.elapsed().as_secs_f64(),
                scenarios: &timings,
                figures: &figures,
            };
            let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
            std::fs::write(file, text)?;
        }
        if let Some(file) = &self.plot {
            std::fs::write(file, plot::draw(&measured.arrived, &measured.latencies)?)?;
        }
        let lost = figures.iter().filter(|figure| is_loss(figure)).any(|figure| figure.value > 0.0);
        match failed {
            Some(fault) => Err(fault),
            None if lost => Err(BenchError::Failed("something was lost, see above".to_owned())),
            None => Ok(()),
        }
    }

    async fn measure(
        &self,
        scenario: Scenario,
        plan: &Plan,
        history: &mut Option<History>,
    ) -> Result<Measured, BenchError> {
        plan.progress.scenario(&scenario.name())?;
        Ok(match scenario {
            Scenario::Deliver => {
                let mut measured = scenarios::deliver(plan, true).await?;
                measured.add(scenarios::deliver(plan, false).await?);
                measured
            }
            Scenario::Latency => scenarios::latency(plan).await?,
            Scenario::Recovery => scenarios::recovery(plan).await?,
            Scenario::Isolation => scenarios::isolation(plan).await?,
            Scenario::Settle => scenarios::settle(plan).await?,
            Scenario::Lists => scenarios::lists(plan).await?,
            Scenario::Growth => {
                let (measured, grown) = scenarios::growth(plan).await?;
                *history = Some(grown);
                measured
            }
            Scenario::Start => scenarios::start(plan, history.take()).await?,
            Scenario::Limits => scenarios::limits(plan).await?,
        })
    }
}

impl Scenario {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The position of a scenario in the list of all scenarios.
    fn position(name: &str) -> Option<usize> {
        Scenario::value_variants().iter().position(|scenario| scenario.name() == name)
    }
}

/// Writes a line.
fn print(to: &mut dyn Write, text: &str) -> std::io::Result<()> {
    writeln!(to, "{text}")?;
    to.flush()
}

fn interrupted() -> BenchError {
    BenchError::Failed("interrupted".to_owned())
}

/// What the name of a figure ends with that must be 0.
const LOSSES: [&str; 4] = ["lost", "wrong state", "paid twice", "books disagree"];

fn is_loss(figure: &Figure) -> bool {
    LOSSES.iter().any(|loss| figure.name.ends_with(loss))
}

/// How close `deliver` comes to the bare client, if both were measured.
fn ratio(figures: &[Figure]) -> Option<Figure> {
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    let (delivered, bare) = (value("batched: deliveries")?, value("bare POSTs of the same client")?);
    Some(Figure::new("deliver", "batched, of the bare POSTs", delivered / bare, "×").at_least(0.35))
}
