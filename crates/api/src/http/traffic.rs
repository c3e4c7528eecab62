//! Counts the requests, and how long they take, by method, route and status.
//!
//! Labels are texts: finding a metric by them costs more than counting. So each metric is found once and
//! kept. There are few, because routes are ours and all unknown methods are one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

/// The methods that have a name of their own. Callers can invent methods; labels must stay few.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const OTHER: &str = "other";

/// The metrics of a listener's requests. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traffic(Arc<RwLock<HashMap<String, OfRoute>>>);

/// The metrics of one route, by method and status.
type OfRoute = HashMap<(&'static str, StatusCode), Series>;

/// The metrics of one method, route and status.
struct Series {
    requests: Counter,
    durations: Histogram,
}

impl Series {
    fn find(method: &'static str, route: &str, status: StatusCode) -> Series {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.as_str().to_owned()),
        ];
        Series {
            requests: metrics::counter!("settle_http_requests_total", &labels),
            durations: metrics::histogram!("settle_http_request_duration_seconds", &labels),
        }
    }

    fn count(&self, took: Duration) {
        self.requests.increment(1);
        self.durations.record(took.as_secs_f64());
    }
}

impl Traffic {
    /// Counts an answered request.
    pub fn count(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(route).and_then(|of_route| of_route.get(&(method, status))) {
            return series.count(took);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of_route = known.entry(route.to_owned()).or_default();
        of_route.entry((method, status)).or_insert_with(|| Series::find(method, route, status)).count(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    #[test]
    fn requests_are_counted_by_method_route_and_status_and_unknown_methods_are_one() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let traffic = Traffic::default();
        let count = |method: &str, route, status: u16| {
            let (method, status) = (method.parse().unwrap(), status.try_into().unwrap());
            traffic.count(&method, route, status, Duration::from_millis(250));
        };
        metrics::with_local_recorder(&recorder, || {
            for (method, route, status) in [
                ("GET", "/a", 200),
                ("GET", "/a", 200),
                ("GET", "/a", 404),
                ("POST", "/a", 200),
                ("GET", "/b", 200),
                ("BREW", "/a", 405),
                ("GETS", "/a", 405),
            ] {
                count(method, route, status);
            }
        });
        let text = recorder.handle().render();
        let took = r#"settle_http_request_duration_seconds_sum{method="GET",route="/a",status="200"} 0.5"#;
        assert!(
            text.contains(took),
            "{took} is not in
{text}"
        );
        for (method, route, status, number) in [
            ("GET", "/a", 200, 2),
            ("GET", "/a", 404, 1),
            ("POST", "/a", 200, 1),
            ("GET", "/b", 200, 1),
            ("other", "/a", 405, 2),
        ] {
            let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {number}\n");
            for metric in ["settle_http_requests_total", "settle_http_request_duration_seconds_count"] {
                assert!(text.contains(&format!("{metric}{labels}")), "{metric}{labels} is not in\n{text}");
            }
        }
    }
}
