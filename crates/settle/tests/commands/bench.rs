//! `settle bench --quick` works and loses nothing. Its figures are not tested.

use serde_json::Value;
use settle_testing::binary::Settle;

use crate::BINARY;

const SCENARIOS: [&str; 9] =
    ["deliver", "latency", "recovery", "isolation", "settle", "lists", "growth", "start", "limits"];
/// Figures that must be 0: what was lost, deliveries in the wrong state, payments that were paid twice, books
/// that do not agree.
const LOSSES: usize = 16;

fn measures_and_loses_nothing(store: &str) {
    // The benchmark has a store of its own: the store that is set up here must not change.
    let settle = Settle::sqlite(BINARY);
    let (json, plot) = (settle.write("bench.json", ""), settle.write("bench.svg", ""));
    let (json_text, plot_text) = (json.display().to_string(), plot.display().to_string());
    let files = ["--json", json_text.as_str(), "--plot", plot_text.as_str()];
    let arguments = [["bench", "--quick", "--store", store].as_slice(), &files].concat();
    let mut command = settle.command(&arguments);
    // The benchmark finds PostgreSQL's programs on the usual path.
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("the binary runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("it is written")).expect("JSON");
    assert_eq!(report["store"], store);
    assert!(report["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0), "{report}");
    let timed = report["scenarios"].as_array().expect("a list");
    assert_eq!(timed.iter().map(|timing| &timing["scenario"]).collect::<Vec<_>>(), SCENARIOS);
    let figures = report["figures"].as_array().expect("a list");
    let lost = figures.iter().filter(|figure| {
        let name = figure["name"].as_str().expect("a name");
        ["lost", "wrong state", "paid twice", "books disagree"].iter().any(|loss| name.ends_with(loss))
    });
    assert_eq!(lost.map(|figure| assert_eq!(figure["value"], 0.0, "{figure}")).count(), LOSSES, "{table}");
    for scenario in SCENARIOS {
        assert!(table.lines().any(|line| line.starts_with(scenario)), "{scenario}: {table}");
        assert!(figures.iter().any(|figure| figure["scenario"] == scenario), "{scenario}: {report}");
    }
    for figure in figures {
        assert!(figure["value"].is_number(), "nothing was measured: {figure}");
    }
    assert!(std::fs::read_to_string(plot).expect("it is written").starts_with("<svg"));
    assert!(!settle.data().exists(), "the configured store is not touched");
}

#[test]
fn on_sqlite() {
    measures_and_loses_nothing("sqlite");
}

#[test]
fn on_postgres() {
    measures_and_loses_nothing("postgres");
}
