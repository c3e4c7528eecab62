//! The suite that every backend passes, and what PostgreSQL alone can do to us: vanish, hang, fail over.

mod clearings;
mod clock_steps;
mod conformance;
mod hosts;
mod hung;
mod locked;
mod master_keys;
mod migrations;
mod model;
mod query_plans;
mod revocation;
mod rights;
mod shares;
mod standstill;
mod vanished;
