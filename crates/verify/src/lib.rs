//! For merchants' receivers: verifies and reads the notifications that Settle sends.
//!
//! It needs no web framework and no clock: the caller passes a closure that finds headers, and the time. Pass
//! the raw bytes of the body: parsing the JSON and writing it again makes another message.
//!
//! ```
//! use std::collections::HashMap;
//! use std::time::SystemTime;
//!
//! use settle_verify::{Verifier, VerifyError};
//!
//! /// Takes a notification; returns the status to answer with.
//! fn receive(verifier: &Verifier, headers: &HashMap<&str, &str>, body: &[u8], now: SystemTime) -> u16 {
//!     match verifier.verify(|name| headers.get(name).copied(), body, now) {
//!         Ok(event) if event.test => 204,
//!         Ok(event) => {
//!             // Store it here, once for each `event.delivery_id`. Answer only then, within 10 seconds.
//!             let settlement = event.settlement;
//!             println!("{}: {}", settlement.settlement_id, settlement.incoming_amount);
//!             204
//!         }
//!         // Authentic, but of a kind that this receiver does not know yet: nothing to do.
//!         Err(VerifyError::UnknownEvent(_)) => 204,
//!         Err(refused) => {
//!             eprintln!("refused: {refused}");
//!             400
//!         }
//!     }
//! }
//!
//! // While you replace the secret, the verifier accepts both.
//! let verifier = Verifier::new("whsec").also("the secret before");
//! # let headers = HashMap::from([
//! #     (settle_verify::DELIVERY_ID_HEADER, "0190d3c4-7c00-7000-8000-0000000000d1"),
//! #     (settle_verify::TIMESTAMP_HEADER, "1769862662"),
//! #     (
//! #         settle_verify::SIGNATURE_HEADER,
//! #         "sha256=a3489a942708a3ce71716e1bd4dd38ac756f548910c5f0e7e6a78878720f94d4",
//! #     ),
//! # ]);
//! # let body = include_bytes!("../tests/data/notification.json");
//! # let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_769_862_662);
//! # assert_eq!(receive(&verifier, &headers, body, now), 204);
//! # assert_eq!(receive(&verifier, &headers, b"{}", now), 400);
//! ```
//!
//! With the `http` crate, and so with axum and hyper, the closure is
//! `|name| headers.get(name)?.to_str().ok()`; the time is `SystemTime::now()`.
//!
//! The signature covers only the timestamp and the body. The delivery id is a header beside them: deduplicate
//! by it, but credit each `settlement_id` only once, so that an attacker who sends a captured notification
//! again under another delivery id gains nothing.

mod error;
mod event;
mod headers;
mod verifier;

pub use error::VerifyError;
pub use event::{EVENT_TYPE, Event, Settlement};
pub use headers::{DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, TEST_HEADER, TIMESTAMP_HEADER};
pub use verifier::{DELIVERY_ID_BYTES_MAX, TOLERANCE, Verifier};
