//! The settings become the bounds of the listeners.

use std::num::NonZeroU32;
use std::time::Duration;

use settle_api::Guessing;
use settle_api::server::ServerLimits;
use settle_wiring::config::{Config, Environment, load};

use super::{guessing, server_limits};

/// The settings of a service that has nothing but these variables.
fn settings(variables: &[(&str, &str)]) -> Config {
    let variables = variables.iter().map(|(name, value)| (format!("SETTLE_{name}"), (*value).to_owned()));
    let environment: Environment = variables.collect();
    load(None, &environment).unwrap().config
}

#[test]
fn a_listener_has_the_bounds_of_the_settings() {
    let limits = server_limits(&settings(&[
        ("API__CONNECTIONS_MAX", "3"),
        ("API__CONNECTIONS_PER_SOURCE", "2"),
        ("API__TRUSTED_PROXIES", "192.0.2.0/24"),
        ("API__HEADER_TIMEOUT", "7s"),
        ("API__WRITE_TIMEOUT", "8s"),
        ("SHUTDOWN__TIMEOUT", "9s"),
    ]));
    assert_eq!((limits.connections_max, limits.connections_per_source), (3, 2));
    assert!(limits.proxies.contain([192, 0, 2, 7].into()));
    assert!(!limits.proxies.contain([192, 0, 3, 7].into()));
    let timeouts = [limits.header_timeout, limits.write_timeout, limits.shutdown_timeout];
    assert_eq!(timeouts, [7, 8, 9].map(Duration::from_secs));
}

#[test]
fn wrong_credentials_have_the_bounds_of_the_settings() {
    let set = [("API__WRONG_CREDENTIALS_PER_SECOND", "3"), ("API__WRONG_CREDENTIALS_BURST", "4")];
    let Guessing { per_second, burst } = guessing(&settings(&set));
    assert_eq!((per_second, burst.get()), (NonZeroU32::new(3), 4));
    let unlimited = guessing(&settings(&[("API__WRONG_CREDENTIALS_PER_SECOND", "0")]));
    assert_eq!(unlimited.per_second, None);
}

/// Whoever builds a listener without settings, as the tests of the API do, has the bounds of the service.
#[test]
fn the_defaults_are_those_of_the_decisions() {
    let settings = settings(&[]);
    let (limits, defaults) = (server_limits(&settings), ServerLimits::default());
    assert_eq!(limits.header_timeout, Duration::from_secs(5));
    assert_eq!(limits.header_timeout, defaults.header_timeout);
    assert_eq!(limits.write_timeout, defaults.write_timeout);
    assert_eq!(limits.shutdown_timeout, defaults.shutdown_timeout);
    assert_eq!(limits.connections_per_source, defaults.connections_per_source);
    assert!(!limits.proxies.contain([127, 0, 0, 1].into()), "nobody is believed");
    let (set, default) = (guessing(&settings), Guessing::default());
    assert_eq!((set.per_second, set.burst), (default.per_second, default.burst));
}
