//! The rules of the domain, against the contract's tables, exact fractions and texts of strangers.

mod delivery_states;
mod error_codes;
mod fuzz;
mod money_properties;
mod money_vectors;
mod outgoing_limit;
mod settlement_import;
mod settling;
