//! A provider for development and tests: `settle sandbox`. No money moves, and it can do everything that a
//! real provider does to us, on demand.
//!
//! What it has executed is in its own file before anybody hears of it, so that a test which kills it can
//! believe what it says afterwards. All time is a parameter: what happens later happens when somebody asks
//! after its time has come, and nobody can tell the difference.
//!
//! | module | what it does |
//! |---|---|
//! | `behaviour` | what a reference asks for |
//! | `record` | one operation, as it stands in the file |
//! | `ledger` | all operations in memory: which answer each call gets |
//! | `journal` | the file |
//! | `rates` | the prices, and quotes that need no memory |
//! | `desk` | ledger and journal together: an answer waits until what it says is on the disk |
//! | `sandbox` | opening and serving |
//! | `http` | the protocol, and what tests ask the sandbox itself |
//! | `openapi` | the protocol as a document, made from the routes |
//! | `server` | connections, and how one is cut |

mod behaviour;
mod broken;
mod desk;
mod http;
mod journal;
mod ledger;
mod openapi;
mod rates;
mod record;
mod sandbox;
mod server;

#[cfg(feature = "testing")]
pub use broken::Broken;
pub use openapi::text as openapi_text;
pub use sandbox::{OpenError, Sandbox, SandboxSettings};
