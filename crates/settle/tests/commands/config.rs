//! The settings: their sources, what is refused, what is shown. No test here opens a store.

use serde_json::Value;
use settle_testing::binary::{Settle, keys, text};

use crate::BINARY;

/// The shown value and source of one setting.
#[track_caller]
fn shown(settle: &Settle, arguments: &[&str], key: &str) -> (String, String) {
    let arguments: Vec<&str> = arguments.iter().chain(&["config", "show", "--json"]).copied().collect();
    let rows = settle.run(&arguments).json();
    let rows = rows.as_array().expect("rows");
    let row = rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key} is not shown"));
    assert_eq!(keys(row), ["key", "source", "value"]);
    let part = |name: &str| row[name].as_str().expect("a string").to_owned();
    (part("value"), part("source"))
}

#[test]
fn the_names_and_defaults_that_other_programs_rely_on() {
    let settle = Settle::sqlite(BINARY);
    for (key, value) in [
        ("api.listen", "127.0.0.1:8080"),
        ("api.requests_per_second", "1000"),
        ("operator.listen", "127.0.0.1:8081"),
        ("webhook.timeout", "10s"),
        ("webhook.retry_first", "60s"),
        ("webhook.retry_max", "1h"),
        ("webhook.max_attempts", "8"),
        ("webhook.allow_networks", ""),
        ("webhook.allow_unresolved", "false"),
        ("webhook.allow_http", "false"),
        ("webhook.nameservers", ""),
        ("alerts.url", ""),
        ("master_key", ""),
    ] {
        assert_eq!(shown(&settle, &[], key), (value.to_owned(), "default".to_owned()), "{key}");
    }
}

#[test]
fn the_environment_beats_the_file_and_the_file_beats_the_default() {
    let settle = Settle::sqlite(BINARY);
    let path = settle.write("other.toml", "[api]\nlisten = \"127.0.0.1:9001\"\nrequests_burst = 7\n");
    let file = &["--config", text(&path)];
    let (value, source) = shown(&settle, file, "api.requests_burst");
    assert!(value == "7" && source.ends_with("other.toml"), "{source}");
    let settle = settle.with("SETTLE_API__LISTEN", "127.0.0.1:9002");
    let from_variable = ("127.0.0.1:9002".to_owned(), "SETTLE_API__LISTEN".to_owned());
    assert_eq!(shown(&settle, file, "api.listen"), from_variable);
}

#[test]
fn settle_toml_is_read_where_the_command_runs() {
    let settle = Settle::sqlite(BINARY);
    settle.write("settle.toml", "[webhook]\nmax_attempts = 3\n");
    let (value, source) = shown(&settle, &[], "webhook.max_attempts");
    assert!(value == "3" && source.ends_with("settle.toml"), "{source}");
}

#[test]
fn the_file_can_be_named_by_a_variable() {
    let settle = Settle::sqlite(BINARY);
    let path = settle.write("named.toml", "[webhook]\nmax_attempts = 4\n");
    let settle = settle.with("SETTLE_CONFIG", text(&path));
    assert_eq!(shown(&settle, &[], "webhook.max_attempts").0, "4");
}

#[test]
fn secrets_are_not_shown() {
    let master_key = "5e771e".repeat(10) + "5e77";
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_MASTER_KEY", &master_key)
        .with("SETTLE_DATABASE_URL", "postgres://settle:hunter2@db.example/settle?password=hunter3")
        .with("SETTLE_ALERTS__URL", "https://ops:hunter4@alerts.example/hook?token=hunter5")
        .with("SETTLE_PROVIDERS__BANK__URL", "https://settle:hunter6@bank.example/settle?token=hunter7")
        .with("SETTLE_PROVIDERS__BANK__SECRET", "hunter8");
    for arguments in [&["config", "show"][..], &["config", "show", "--json"]] {
        let ran = settle.run(arguments);
        for secret in [master_key.as_str(), "hunter"] {
            assert!(!ran.ok().contains(secret), "{ran:?}");
        }
        assert!(ran.stdout.contains("db.example") && ran.stdout.contains("SETTLE_MASTER_KEY"), "{ran:?}");
    }
    assert_eq!(shown(&settle, &[], "master_key").0, "(set)");
    let url = shown(&settle, &[], "providers.bank.url").0;
    assert_eq!(url, "https://settle:…@bank.example/settle?…");
}

#[test]
fn a_variable_that_is_nearly_ours_is_refused_with_the_nearest_name() {
    for (name, nearest) in [
        ("SETTLE_API__LISTN", "did you mean SETTLE_API__LISTEN?"),
        ("SETTLE_API_LISTEN", "did you mean SETTLE_API__LISTEN?"),
        ("SETTLE_MASTERKEY", "did you mean SETTLE_MASTER_KEY?"),
        ("SETTLE_DATABASE_UR", "did you mean SETTLE_DATABASE_URL?"),
        ("SETTLE_DATABASE_URL_FIL", "did you mean SETTLE_DATABASE_URL_FILE?"),
        ("SETTLE_MASTER_KEY_FLIE", "did you mean SETTLE_MASTER_KEY_FILE?"),
        ("SETTLE_DB_URL", "did you mean SETTLE_DATABASE_URL?"),
        ("SETTLE_PROVIDERS__BANK__URI", "did you mean SETTLE_PROVIDERS__BANK__URL?"),
        ("SETTLE_PROVIDERS__BANK__SECRTE", "did you mean SETTLE_PROVIDERS__BANK__SECRET?"),
        // Nobody else has two underscores.
        ("SETTLE_NOTIFY__RETRIES_AT_MOST", "is not a setting"),
        ("SETTLE_PROVIDERS__BANK", "is not a setting"),
    ] {
        let settle = Settle::sqlite(BINARY).with(name, "secret-value");
        let ran = settle.run(&["config", "show"]);
        assert!(ran.failed().contains(name) && ran.stderr.contains(nearest), "{ran:?}");
        assert!(!ran.stderr.contains("secret-value"), "{ran:?}");
    }
}

#[test]
fn a_variable_that_is_like_none_of_ours_is_a_warning() {
    // Kubernetes sets these for services named settle, settle-database, settle-data and so on; the last
    // one is in our own examples.
    let injected = [
        "SETTLE_PORT",
        "SETTLE_PORT_8080_TCP",
        "SETTLE_PORT_8080_TCP_ADDR",
        "SETTLE_PORT_8080_TCP_PORT",
        "SETTLE_PORT_8080_TCP_PROTO",
        "SETTLE_SERVICE_HOST",
        "SETTLE_SERVICE_PORT",
        "SETTLE_SERVICE_PORT_HTTP",
        "SETTLE_API_SERVICE_HOST",
        "SETTLE_DATABASE_PORT",
        "SETTLE_DATABASE_PORT_53_UDP",
        "SETTLE_DATABASE_PORT_5432_TCP_ADDR",
        "SETTLE_DATABASE_SERVICE_HOST",
        "SETTLE_DATABASE_SERVICE_PORT",
        "SETTLE_DATABASE_SERVICE_PORT_SQL",
        "SETTLE_DATA_PORT",
        "SETTLE_DATA_PORT_1_TCP",
        "SETTLE_MASTER_PORT",
        "SETTLE_LOG_PORT",
        "SETTLE_URL",
    ];
    let settle = injected.iter().fold(Settle::sqlite(BINARY), |settle, name| settle.with(name, "secret"));
    let ran = settle.run(&["config", "show"]);
    assert!(ran.ok().contains("api.listen"), "{ran:?}");
    for name in injected {
        let words = format!("{name} in the environment is not a setting: it changes nothing");
        assert!(ran.stderr.contains(&words), "{ran:?}");
    }
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
}

#[test]
fn values_over_the_contract_are_a_warning() {
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_WEBHOOK__MAX_ATTEMPTS", "9")
        .with("SETTLE_WEBHOOK__TIMEOUT", "20s");
    let ran = settle.run(&["config", "show"]);
    for words in ["webhook.max_attempts is 9, but", "webhook.timeout is 20s, but"] {
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    let quiet = Settle::sqlite(BINARY).run(&["config", "show"]);
    assert_eq!((quiet.ok().is_empty(), quiet.stderr.as_str()), (false, ""));
}

#[test]
fn secrets_can_come_from_files() {
    let settle = Settle::sqlite(BINARY);
    let file = settle.write("key", &("5e".repeat(32) + "\n"));
    let settle = settle.with("SETTLE_MASTER_KEY_FILE", text(&file));
    assert_eq!(shown(&settle, &[], "master_key"), ("(set)".to_owned(), "SETTLE_MASTER_KEY_FILE".to_owned()));
    settle.merchant();
    let twice = settle.with("SETTLE_MASTER_KEY", &"5e".repeat(32)).run(&["config", "show"]);
    let words = "SETTLE_MASTER_KEY and SETTLE_MASTER_KEY_FILE are both set";
    assert!(twice.failed().contains(words), "{twice:?}");
    let missing = Settle::sqlite(BINARY).with("SETTLE_ALERTS__URL_FILE", "nowhere").run(&["config", "show"]);
    assert!(missing.failed().contains("SETTLE_ALERTS__URL_FILE: cannot read nowhere"), "{missing:?}");
}

#[test]
fn a_file_that_holds_no_value_is_refused() {
    for name in ["MASTER_KEY", "DATABASE_URL", "ALERTS__URL", "PROVIDERS__BANK__SECRET"] {
        for content in ["", "\n", " \r\n"] {
            let settle = Settle::sqlite(BINARY);
            let file = settle.write("empty", content);
            let settle = settle.with(&format!("SETTLE_{name}_FILE"), text(&file));
            let ran = settle.run(&["config", "show"]);
            let words = format!("SETTLE_{name}_FILE: {} is empty", file.display());
            assert!(ran.failed().contains(&words), "{ran:?}");
        }
    }
}

#[test]
fn a_provider_without_a_url_or_a_secret_is_told_which_is_missing() {
    for (there, missing) in [("URL", "SECRET"), ("SECRET", "URL")] {
        let settle = Settle::sqlite(BINARY).with(&format!("SETTLE_PROVIDERS__SANDBOX__{there}"), "hush");
        let ran = settle.run(&["config", "show"]);
        let key = missing.to_lowercase();
        let words =
            format!("providers.sandbox.{key}: is missing: set SETTLE_PROVIDERS__SANDBOX__{missing}\n");
        assert!(ran.failed().ends_with(&words) && !ran.stderr.contains("hush"), "{ran:?}");
    }
    let settle = Settle::sqlite(BINARY);
    settle.write("settle.toml", "[providers.xy]\nurl = \"http://127.0.0.1:4100\"\n");
    let ran = settle.run(&["config", "show"]);
    let words = "providers.xy.secret: is missing: set it in settle.toml, or SETTLE_PROVIDERS__XY__SECRET\n";
    assert!(ran.failed().ends_with(words), "{ran:?}");
}

#[test]
fn a_number_is_shown_as_it_was_written() {
    let settle = Settle::sqlite(BINARY).with("SETTLE_API__REQUESTS_PER_SECOND", "50");
    assert_eq!(shown(&settle, &[], "api.requests_per_second").0, "50");
}

#[test]
fn an_error_says_what_is_expected_with_an_example_and_names_no_type() {
    for (name, value, words) in [
        ("SETTLE_API__LISTEN", "nonsense", "is not an address and a port, such as 127.0.0.1:8080"),
        ("SETTLE_API__REQUESTS_PER_SECOND", "99999999999", "is not a whole number from 0 to 4294967295"),
        ("SETTLE_API__WRONG_CREDENTIALS_PER_SECOND", "many", "is not a whole number from 0 to 4294967295"),
        ("SETTLE_API__REQUESTS_BURST", "0", "\"0\" is not a whole number from 1 to 4294967295, such as "),
        ("SETTLE_WEBHOOK__TIMEOUT", "soon", "\"soon\" is not a duration, such as 10s, 5m or 1h"),
        ("SETTLE_WEBHOOK__ALLOW_HTTP", "maybe", "\"maybe\" is not true or false"),
        ("SETTLE_WEBHOOK__ALLOW_NETWORKS", "home", "is not a list of networks, such as 127.0.0.0/8"),
        ("SETTLE_WEBHOOK__NAMESERVERS", "1.1.1.1", "is not a list of addresses and ports, such as"),
        ("SETTLE_LOG__FORMAT", "xml", "\"xml\" is not auto, text or json"),
        (
            "SETTLE_LOG__LEVEL",
            "verbose",
            "\"verbose\" is not a level or a list of module=level, such as info",
        ),
        ("SETTLE_LOG__LEVEL", "", "is not a level"),
        ("SETTLE_LOG__LEVEL", "info,settle_api=loud", "is not a level"),
        ("SETTLE_ALERTS__URL", "x", "must be a http or https URL with a host, such as https://"),
    ] {
        let ran = Settle::sqlite(BINARY).with(name, value).run(&["config", "show"]);
        assert!(ran.failed().contains(words), "{name}={value}: {ran:?}");
        for kind in ["u32", "boolean", "variant", "syntax", "string"] {
            assert!(!ran.stderr.contains(kind), "{name}={value}: {ran:?}");
        }
    }
    let settle = Settle::sqlite(BINARY);
    for (text, words) in [
        ("[api]\nlisten = 5\n", "api.listen: \"5\" is not an address and a port"),
        ("[api]\nrequests_burst = -5\n", "api.requests_burst: \"-5\" is not a whole number from 1"),
        ("[webhook]\ntimeout = 10\n", "webhook.timeout: \"10\" is not a duration, such as 10s"),
        ("[webhook]\nallow_http = \"no\"\n", "webhook.allow_http: \"no\" is not true or false"),
    ] {
        settle.write("settle.toml", text);
        let ran = settle.run(&["config", "show"]);
        assert!(ran.failed().contains(words) && ran.stderr.contains("settle.toml"), "{ran:?}");
    }
}

#[test]
fn an_unknown_key_in_the_file_is_refused_with_the_nearest_name() {
    for (text, key, nearest) in [
        ("[api]\nlistn = \"127.0.0.1:1\"\n", "api.listn", "did you mean api.listen?"),
        ("data_dri = \"x\"\n", "data_dri", "did you mean data_dir?"),
        ("[webhooks]\ntimeout = \"1s\"\n", "webhooks.timeout", "did you mean webhook.timeout?"),
    ] {
        let settle = Settle::sqlite(BINARY);
        settle.write("settle.toml", text);
        let ran = settle.run(&["config", "show"]);
        assert!(ran.failed().contains(key) && ran.stderr.contains(nearest), "{ran:?}");
        assert!(ran.stderr.contains("settle.toml"), "says where: {ran:?}");
    }
}

#[test]
fn a_bad_value_is_named() {
    for (name, key, value) in [
        ("SETTLE_API__LISTEN", "api.listen", "nonsense"),
        ("SETTLE_API__LISTEN", "api.listen", "127.0.0.1"),
        ("SETTLE_API__REQUESTS_PER_SECOND", "api.requests_per_second", "many"),
        ("SETTLE_API__REQUESTS_PER_SECOND", "api.requests_per_second", "-1"),
        ("SETTLE_API__REQUESTS_BURST", "api.requests_burst", "0"),
        ("SETTLE_WEBHOOK__TIMEOUT", "webhook.timeout", "soon"),
        ("SETTLE_WEBHOOK__TIMEOUT", "webhook.timeout", "0s"),
        ("SETTLE_WEBHOOK__TIMEOUT", "webhook.timeout", "-1s"),
        ("SETTLE_WEBHOOK__MAX_ATTEMPTS", "webhook.max_attempts", "0"),
        ("SETTLE_WEBHOOK__ALLOW_HTTP", "webhook.allow_http", "maybe"),
        ("SETTLE_WEBHOOK__ALLOW_NETWORKS", "webhook.allow_networks", "10.0.0.0/8,home"),
        ("SETTLE_WEBHOOK__NAMESERVERS", "webhook.nameservers", "1.1.1.1"),
        ("SETTLE_ALERTS__URL", "alerts.url", "alerts.example/hook"),
        ("SETTLE_ALERTS__URL", "alerts.url", "ftp://alerts.example/hook"),
        ("SETTLE_ALERTS__URL", "alerts.url", "http://"),
        ("SETTLE_LOG__FORMAT", "log.format", "xml"),
        ("SETTLE_LOG__LEVEL", "log.level", "settle=loud"),
    ] {
        let ran = Settle::sqlite(BINARY).with(name, value).run(&["config", "show"]);
        let named = ran.failed().contains(key) || ran.stderr.contains(name);
        assert!(named && ran.stderr.lines().count() == 1, "{name}={value}: {ran:?}");
    }
}

#[test]
fn a_bad_value_in_the_file_is_named_with_the_file() {
    let settle = Settle::sqlite(BINARY);
    settle.write("settle.toml", "[api]\nrequests_burst = \"seven\"\n");
    let ran = settle.run(&["config", "show"]);
    assert!(ran.failed().contains("api.requests_burst") && ran.stderr.contains("settle.toml"), "{ran:?}");
    settle.write("settle.toml", "[api\n");
    assert!(settle.run(&["config", "show"]).failed().contains("settle.toml"));
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let ran = Settle::sqlite(BINARY).run(&["--config", "nowhere.toml", "config", "show"]);
    assert!(ran.failed().contains("nowhere.toml"), "{ran:?}");
}

#[test]
fn the_defaults_are_a_settings_file() {
    let settle = Settle::sqlite(BINARY);
    let defaults = settle.run(&["config", "defaults"]).ok().to_owned();
    let path = settle.write("defaults.toml", &defaults);
    let arguments = ["--config", text(&path), "config", "show", "--json"];
    let rows: Value = settle.run(&arguments).json();
    for row in rows.as_array().unwrap() {
        let key = row["key"].as_str().unwrap();
        let name = key.rsplit('.').next().unwrap();
        assert!(defaults.contains(&format!("{name} = ")), "{key} is documented");
    }
}

#[test]
fn an_alert_url_that_is_none_is_not_repeated() {
    let settle = Settle::sqlite(BINARY).with("SETTLE_ALERTS__URL", "gopher://ops:hush@alerts.example/");
    let ran = settle.run(&["config", "show"]);
    let words = "alerts.url: must be a http or https URL with a host, such as https://alerts.example/hook \
                 (set in SETTLE_ALERTS__URL)";
    assert!(ran.failed().contains(words) && !ran.stderr.contains("hush"), "{ran:?}");
}

#[test]
fn an_error_in_the_file_shows_nothing_of_its_line() {
    let settle = Settle::sqlite(BINARY);
    for (text, place) in [
        ("\ndatabase_url = \"postgres://u:hush@h/d\n", "settle.toml: line 2: not TOML"),
        ("master_key = 1234567890", "master_key: must be text in quotes (set in settle.toml)"),
    ] {
        settle.write("settle.toml", text);
        let ran = settle.run(&["config", "show"]);
        assert!(ran.failed().contains(place), "{ran:?}");
        assert!(!ran.failed().contains("hush") && !ran.failed().contains("123456"), "{ran:?}");
    }
}

#[test]
fn variables_of_others_may_be_anything() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let settle = Settle::sqlite(BINARY);
    let bytes = OsStr::from_bytes(b"\xff");
    let run = |name: &str| settle.command(&["config", "show"]).env(name, bytes).output().expect("it runs");
    assert!(run("OTHER").status.success());
    let refused = run("SETTLE_LOG__LEVEL");
    let text = String::from_utf8(refused.stderr).expect("an error is text");
    assert!(!refused.status.success() && text.contains("SETTLE_LOG__LEVEL: is not UTF-8"), "{text}");
}
