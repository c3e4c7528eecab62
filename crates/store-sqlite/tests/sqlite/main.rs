//! The suite that every backend passes, and what SQLite alone promises: plans, threads, earlier shapes.

mod conformance;
mod migrations;
mod query_plans;
mod revocation;
mod threads;
