//! Ports for the processes that the benchmark starts.
//!
//! They are below those that the kernel gives to clients. While the benchmark asks a service that does not
//! listen yet, the kernel could otherwise give the service's port to the asking end, which would then be
//! connected to itself, and the port taken.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::BenchError;

/// The ports to choose from.
const PORTS: Range<u16> = 15_000..30_000;

/// An address that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr, BenchError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS.len() {
        let number = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(number % u32::from(PORTS.end - PORTS.start)).unwrap_or(0);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener.local_addr()?);
        }
    }
    Err(BenchError::Failed("no port is free".to_owned()))
}
