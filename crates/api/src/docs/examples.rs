//! The samples that the page shows: answers, a notification, and receivers of it.

use serde::Serialize;

/// A notification on many lines for people to read; the service sends it on one.
pub(super) const NOTIFICATION: &str = include_str!("examples/notification.json");

/// A whole receiver in one language.
#[derive(Serialize)]
pub(super) struct Receiver {
    /// The language, as people write it.
    pub(super) label: &'static str,
    /// The language, as the page's markup knows it.
    pub(super) language: &'static str,
    /// What must be there before, in Markdown.
    pub(super) needs: &'static str,
    /// The file it is saved as.
    pub(super) file: &'static str,
    /// The commands that start it.
    pub(super) start: &'static str,
    /// The program.
    pub(super) text: &'static str,
}

/// The same receiver in every language.
pub(super) const RECEIVERS: [Receiver; 5] = [
    Receiver {
        label: "Python",
        language: "python",
        needs: "Needs Python 3.10 and nothing else.",
        file: "receiver.py",
        start: "python3 receiver.py",
        text: include_str!("receivers/receiver.py"),
    },
    Receiver {
        label: "Node",
        language: "js",
        needs: "Needs Node 18 and nothing else.",
        file: "receiver.mjs",
        start: "node receiver.mjs",
        text: include_str!("receivers/receiver.mjs"),
    },
    Receiver {
        label: "Go",
        language: "go",
        needs: "Needs Go 1.19 and nothing else.",
        file: "receiver.go",
        start: "go run receiver.go",
        text: include_str!("receivers/receiver.go"),
    },
    Receiver {
        label: "PHP",
        language: "php",
        needs: "Needs PHP 8.1 and nothing else. PHP’s own server is for trying it out: behind another one, \
                let that one bound bodies too.",
        file: "receiver.php",
        start: "php -S 127.0.0.1:8000 receiver.php",
        text: include_str!("receivers/receiver.php"),
    },
    Receiver {
        label: "Ruby",
        language: "ruby",
        needs: "Needs Ruby 3.0 and the gem `webrick`, a web server that Ruby no longer brings along.",
        file: "receiver.rb",
        start: "gem install webrick\nruby receiver.rb",
        text: include_str!("receivers/receiver.rb"),
    },
];

/// The sample answer for a schema. A test compares its keys with those of the schema.
pub(super) fn answer(schema: &str) -> Option<&'static str> {
    match schema {
        "SettlementPage" => Some(include_str!("examples/settlement_page.json")),
        "TestDeliveryResult" => Some(include_str!("examples/test_delivery_result.json")),
        "WebhookConfiguration" => Some(include_str!("examples/webhook_configuration.json")),
        "WebhookDelivery" => Some(include_str!("examples/webhook_delivery.json")),
        "WebhookDeliveryPage" => Some(include_str!("examples/webhook_delivery_page.json")),
        _ => None,
    }
}
