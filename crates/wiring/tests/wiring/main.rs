//! The settings and what is built from them.

mod alerter;
mod fuzz;
