//! `settle delivery list` fits the terminal, and is whole where there is none.

use std::process::{Command, Stdio};

use settle_domain::delivery::DeliveryStatus;
use settle_testing::binary::Settle;

use super::{OLD, delivery};
use crate::BINARY;

/// Runs a command on a terminal of this width; returns the lines that it shows.
fn on_a_terminal(settle: &Settle, width: usize, arguments: &str) -> Vec<String> {
    let script = format!("stty rows 24 cols {width}; '{BINARY}' {arguments}");
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &script, "/dev/null"]);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    for (name, value) in settle.command(&[]).get_envs() {
        command.env(name, value.expect("it is set"));
    }
    let shown = command.env("SHELL", "/bin/sh").stdin(Stdio::null()).output().expect("script runs");
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).expect("UTF-8");
    text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

#[test]
fn a_table_fits_the_terminal_and_a_pipe_gets_all_of_it() {
    let settle = Settle::sqlite(BINARY);
    let merchant = settle.merchant();
    let url = format!("https://merchant.example/{}", "long/".repeat(30));
    let id = delivery(&settle, &merchant, DeliveryStatus::Dead, OLD, &url);
    let piped = settle.run(&["delivery", "list"]);
    assert!(piped.ok().contains(&url) && piped.stdout.contains("answered with status 503"), "{piped:?}");
    for (width, heads, note) in [
        (80, "DELIVERY_ID STATUS ATTEMPTS LAST_ERROR", "too narrow for MERCHANT_ID, CREATED_AT"),
        (
            160,
            "DELIVERY_ID MERCHANT_ID STATUS ATTEMPTS CREATED_AT RESPONSE LAST_ERROR",
            "NEXT_OR_DELIVERED, URL",
        ),
    ] {
        let lines = on_a_terminal(&settle, width, "delivery list");
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), heads);
        let row = &lines[1];
        assert!(row.starts_with(&id) && row.chars().count() <= width, "{row}");
        assert!(lines[2].contains(note), "{lines:#?}");
        assert_eq!(lines.len(), 3, "{lines:#?}");
    }
    let wide = on_a_terminal(&settle, 400, "delivery list");
    assert_eq!(wide.join("\n"), piped.stdout.trim_end());
    let json = on_a_terminal(&settle, 80, "delivery list --json");
    assert!(json.len() == 1 && json[0].contains(&url), "{json:#?}");
}
