//! Renders the pages from their templates, the OpenAPI document and the error codes.

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use settle_domain::signature::{
    DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE,
};
use utoipa::openapi::OpenApi;

use super::codes::Codes;
use super::examples::{NOTIFICATION, RECEIVERS, Receiver, answer};
use super::guide::{Guide, guide};
use super::reference::{Group, Object, Reference, Variables};
use super::{SCRIPT, markup, tables};
use crate::language::{Language, Messages};

/// The templates by name.
const TEMPLATES: [(&str, &str); 4] = [
    ("frame.html", include_str!("frame.html")),
    ("parts.html", include_str!("parts.html")),
    ("page.html", include_str!("page.html")),
    ("operator.html", include_str!("operator.html")),
];
const SETTLING: &str = include_str!("../../../../docs/settling.md");

const MERCHANTS: Variables = Variables { url: "SETTLE_URL", credential: "SETTLE_KEY" };
const OPERATORS: Variables = Variables { url: "SETTLE_OPERATOR_URL", credential: "SETTLE_OPERATOR_TOKEN" };

/// The variables of the operators' template.
#[derive(Serialize)]
struct OperatorPage<'a> {
    groups: &'a [Group],
    objects: &'a [Object],
    codes: Codes,
    settling: Guide,
    script: &'static str,
}

/// The variables of the merchants' template.
#[derive(Serialize)]
struct Page<'a> {
    groups: &'a [Group],
    objects: &'a [Object],
    codes: Codes,
    languages: Vec<&'static str>,
    headers: Headers,
    tolerance_seconds: u64,
    receivers: &'a [Receiver],
    notification: &'static str,
    settlements: &'static str,
    script: &'static str,
}

/// The headers of a notification.
#[derive(Serialize)]
struct Headers {
    signature: &'static str,
    timestamp: &'static str,
    event: &'static str,
    delivery_id: &'static str,
}

/// Renders the page for operators, or says what is wrong with its template.
pub(super) fn operator_page(document: &OpenApi) -> Result<String, String> {
    let reference = Reference::of(document, OPERATORS);
    let messages = Messages::built_in().map_err(ToString::to_string)?;
    let page = OperatorPage {
        groups: &reference.groups,
        objects: &reference.objects,
        codes: Codes::new(messages, &reference.codes()),
        settling: guide(&SETTLING.replace("(settling.svg)", "(docs/settling.svg)"), "settling"),
        script: SCRIPT,
    };
    rendered("operator.html", &page).map_err(|fault| format!("{fault:#}"))
}

/// Renders the page for merchants, or says what is wrong with its template.
pub(super) fn page() -> Result<String, String> {
    let reference = Reference::of(&crate::openapi::document(), MERCHANTS);
    let messages = Messages::built_in().map_err(ToString::to_string)?;
    let page = Page {
        groups: &reference.groups,
        objects: &reference.objects,
        codes: Codes::new(messages, &reference.codes()),
        languages: Language::ALL.iter().map(|language| language.tag()).collect(),
        headers: Headers {
            signature: SIGNATURE_HEADER,
            timestamp: TIMESTAMP_HEADER,
            event: EVENT_HEADER,
            delivery_id: DELIVERY_ID_HEADER,
        },
        tolerance_seconds: TOLERANCE.as_secs(),
        receivers: &RECEIVERS,
        notification: NOTIFICATION,
        settlements: answer("SettlementPage").unwrap_or_default(),
        script: SCRIPT,
    };
    rendered("page.html", &page).map_err(|fault| format!("{fault:#}"))
}

fn rendered(template: &str, page: &impl Serialize) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    // A misspelt name in the template is an error, not a blank.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("inline", markup::inline);
    environment.add_filter("code", markup::code);
    environment.add_filter("table", tables::table);
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    let html = environment.get_template(template)?.render(page)?;
    // The comment at the top of the frame may leave a blank line.
    Ok(html.trim_start().to_owned())
}
