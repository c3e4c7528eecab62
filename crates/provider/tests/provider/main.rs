//! The provider protocol from our side: what the client sees, and what its readers accept.

mod client;
mod fuzz;
