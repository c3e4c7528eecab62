//! The contract check: every answer must match the committed document of its listener, `openapi.json` or
//! `operator-openapi.json`.
//!
//! It checks that the operation and status of an answer are documented; that the body matches the schema and
//! has no other key; that the error code is documented for the status; and that the documented headers are
//! there, and those that every answer has. An answer to an unknown path or method has no schema, but it has
//! the envelope. No answer to a merchant names what operators earn.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use settle_testing::secrecy::internal_names_in;
use uuid::Uuid;

use crate::answer::Answer;

mod tests;

/// The documents, from the root of the repository.
const COMMITTED: &str = include_str!("../../../../openapi.json");
const COMMITTED_FOR_OPERATORS: &str = include_str!("../../../../operator-openapi.json");

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
const LANGUAGES: [&str; 4] = ["en", "pt-BR", "es", "de"];

/// A contract to check answers with.
pub struct Contract {
    document: Value,
    surface: &'static Surface,
    /// By the text of a schema. To make a validator takes far longer than to use it.
    validators: Mutex<BTreeMap<String, Arc<Validator>>>,
}

/// What the answers of a listener have in common.
struct Surface {
    /// How the paths of its API begin.
    prefix: &'static str,
    realm: &'static str,
    /// The key under which an error says more, and the codes that have it.
    explained: (&'static str, &'static [&'static str]),
    /// Whether no answer may name what operators earn.
    hides: bool,
}

static MERCHANTS: Surface = Surface {
    prefix: "/v1/",
    realm: "Bearer realm=\"settle\"",
    explained: ("fields", &["validation_failed"]),
    hides: true,
};
static OPERATORS: Surface = Surface {
    prefix: "/operator/v1/",
    realm: "Bearer realm=\"operator\"",
    explained: ("details", &["admin_validation_failed", "conflict"]),
    hides: false,
};

/// One operation of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The method, in capitals.
    pub method: String,
    /// The path, with its parameters in braces.
    pub template: String,
}

impl Operation {
    /// A path of this operation, with this id in the place of every parameter.
    pub fn path(&self, id: &str) -> String {
        let part = |part: &'_ str| if part.starts_with('{') { id.to_owned() } else { part.to_owned() };
        self.template.split('/').map(part).collect::<Vec<_>>().join("/")
    }
}

impl Contract {
    /// The committed contract with merchants.
    pub fn committed() -> &'static Contract {
        static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::new(parsed(COMMITTED)));
        &CONTRACT
    }

    /// The committed contract with operators.
    pub fn with_operators() -> &'static Contract {
        static CONTRACT: LazyLock<Contract> =
            LazyLock::new(|| Contract::of(&OPERATORS, parsed(COMMITTED_FOR_OPERATORS)));
        &CONTRACT
    }

    /// The text of the committed contract.
    pub fn committed_text() -> &'static str {
        COMMITTED
    }

    pub fn new(document: Value) -> Contract {
        Contract::of(&MERCHANTS, document)
    }

    fn of(surface: &'static Surface, document: Value) -> Contract {
        Contract { document, surface, validators: Mutex::default() }
    }

    /// All operations.
    pub fn operations(&self) -> Vec<Operation> {
        let paths = self.document["paths"].as_object().expect("paths");
        let of_path = |(template, item): (&String, &Value)| {
            let methods = METHODS.iter().filter(|method| item.get(**method).is_some());
            let operations =
                methods.map(|method| Operation { method: method.to_uppercase(), template: template.clone() });
            operations.collect::<Vec<_>>()
        };
        paths.iter().flat_map(of_path).collect()
    }

    /// Fails the test unless the answer keeps to the contract.
    #[track_caller]
    pub fn hold(&self, method: &str, path: &str, answer: &Answer) {
        let violations = self.violations(method, path, answer);
        assert!(violations.is_empty(), "{method} {path}: {violations:#?}\n{answer:#?}");
    }

    /// How an answer breaks the contract.
    pub fn violations(&self, method: &str, path: &str, answer: &Answer) -> Vec<String> {
        let path = path.split('?').next().unwrap_or(path);
        let is_api = path.starts_with(self.surface.prefix);
        let is_error = answer.status >= 400 && !self.is_plain(path, answer);
        let mut violations = header_violations(answer, is_api, is_error, self.surface.realm);
        if self.surface.hides {
            let internal = internal_names_in(&format!("{:?}\n{}", answer.headers, answer.text));
            violations.extend(internal.iter().map(|name| format!("a merchant sees {name}")));
        }
        if method == "HEAD" {
            return violations;
        }
        if is_error {
            violations.extend(envelope_violations(answer, self.surface.explained));
        }
        if let Some(item) = self.path_item(path) {
            violations.extend(self.operation_violations(item, method, answer));
        } else if is_api && answer.status != 404 {
            violations.push(format!("status {} on a path that is not documented", answer.status));
        }
        violations
    }

    /// Whether the document says that this refusal is not in the envelope, as that of `/readyz`.
    fn is_plain(&self, path: &str, answer: &Answer) -> bool {
        let documented =
            self.path_item(path).map(|item| &item["get"]["responses"][answer.status.to_string()]);
        let schema = documented.map(|response| &response["content"]["application/json"]["schema"]["$ref"]);
        schema.and_then(Value::as_str).is_some_and(|name| !name.ends_with("/Error"))
    }

    fn path_item(&self, path: &str) -> Option<&Value> {
        let fits = |template: &str| {
            let (wanted, given): (Vec<&str>, Vec<&str>) =
                (template.split('/').collect(), path.split('/').collect());
            wanted.len() == given.len()
                && wanted
                    .iter()
                    .zip(given)
                    .all(|(wanted, given)| *wanted == given || wanted.starts_with('{') && !given.is_empty())
        };
        let paths = self.document["paths"].as_object()?;
        paths.iter().find(|(template, _)| fits(template)).map(|(_, item)| item)
    }

    fn operation_violations(&self, item: &Value, method: &str, answer: &Answer) -> Vec<String> {
        let Some(operation) = item.get(method.to_lowercase()) else {
            // The key is checked first, and the service itself can always fail.
            let expected = [401, 405, 429, 500, 503].contains(&answer.status);
            let text = format!("status {} on a method that is not documented", answer.status);
            return if expected { Vec::new() } else { vec![text] };
        };
        let Some(documented) = operation["responses"].get(answer.status.to_string()) else {
            return vec![format!("status {} is not documented", answer.status)];
        };
        let content = &documented["content"]["application/json"];
        if content.is_null() {
            let kind = answer.header("content-type").unwrap_or_default();
            let is_known = documented["content"].get(kind).is_some();
            return if is_known { Vec::new() } else { vec![format!("{kind} is not documented")] };
        }
        let mut violations = self.schema_violations(&content["schema"], &answer.text);
        if content.get("examples").is_some() {
            violations.extend(code_violation(content, answer));
        }
        let headers = documented["headers"].as_object();
        let missing = headers.into_iter().flatten().filter(|(name, _)| answer.header(name).is_none());
        violations.extend(missing.map(|(name, _)| format!("the documented header {name} is missing")));
        violations
    }

    fn schema_violations(&self, schema: &Value, body: &str) -> Vec<String> {
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            return vec!["the body is not JSON".to_owned()];
        };
        let validator = self.validator(schema);
        validator.iter_errors(&body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }

    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().expect("nobody fails while making one");
        validators.entry(schema.to_string()).or_insert_with(|| Arc::new(self.new_validator(schema))).clone()
    }

    fn new_validator(&self, schema: &Value) -> Validator {
        let mut used = Map::new();
        collect_used(schema, &self.document["components"]["schemas"], &mut used);
        let mut schema = json!({ "allOf": [schema], "components": { "schemas": used } });
        close(&mut schema);
        jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(&schema)
            .expect("a schema of the document can be used")
    }
}

/// Collects the schemas that a schema refers to, and those that they refer to.
fn collect_used(schema: &Value, named: &Value, used: &mut Map<String, Value>) {
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(name) = reference.and_then(|path| path.strip_prefix("#/components/schemas/"))
        && !used.contains_key(name)
        // A name that the document does not have stays away: the schema that refers to it cannot be used.
        && let Some(referred) = named.get(name)
    {
        used.insert(name.to_owned(), referred.clone());
        collect_used(referred, named, used);
    }
    match schema {
        Value::Object(object) => object.values().for_each(|value| collect_used(value, named, used)),
        Value::Array(values) => values.iter().for_each(|value| collect_used(value, named, used)),
        _ => {}
    }
}

fn parsed(document: &str) -> Value {
    serde_json::from_str(document).expect("the document is JSON")
}

/// Forbids keys that a schema does not name, and values that an open set does not: clients survive what is
/// new, but the service must not send what is not documented.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(either)) = object.get_mut("anyOf") {
                either.truncate(1);
            }
            if object.get("properties").is_some_and(Value::is_object) {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            object.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

/// Checks that the document shows this code for the status.
fn code_violation(content: &Value, answer: &Answer) -> Option<String> {
    let examples = content["examples"].as_object();
    let mut codes = examples.into_iter().flatten().map(|(_, example)| &example["value"]["error"]["code"]);
    let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let code = &body["error"]["code"];
    let documented = codes.any(|known| known == code);
    (!documented).then(|| format!("the code {code} is not documented for status {}", answer.status))
}

/// Checks the headers that every answer has, and those that every error has.
fn header_violations(answer: &Answer, is_api: bool, is_error: bool, realm: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let mut expect = |name: &str, holds: &dyn Fn(&str) -> bool| {
        if !answer.header(name).is_some_and(holds) {
            violations.push(format!("{name} is {:?}", answer.header(name)));
        }
    };
    let is_v7 = |text: &str| Uuid::try_parse(text).is_ok_and(|id| id.get_version_num() == 7);
    expect("x-request-id", &is_v7);
    expect("cache-control", &|text| text == "no-store");
    expect("x-content-type-options", &|text| text == "nosniff");
    if is_api || is_error {
        expect("content-type", &|text| text == "application/json");
    }
    if is_error {
        expect("content-language", &|text| LANGUAGES.contains(&text));
        expect("vary", &|text| text == "Accept-Language");
    }
    match answer.status {
        401 => expect("www-authenticate", &|text| text == realm),
        405 => expect("allow", &|text| !text.is_empty()),
        429 | 503 if is_error => {
            expect("retry-after", &|text| text.parse().is_ok_and(|seconds: u64| seconds > 0));
        }
        _ => {}
    }
    violations
}

/// The rows of the error envelope: `code` and `message` always, `fields` or `details` only for some codes.
fn envelope_violations(answer: &Answer, (key, codes): (&str, &[&str])) -> Vec<String> {
    let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let Some(error) =
        body["error"].as_object().filter(|_| body.as_object().is_some_and(|body| body.len() == 1))
    else {
        return vec!["an error that is not in the envelope".to_owned()];
    };
    let mut violations = Vec::new();
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("code").is_empty() || text("message").is_empty() {
        violations.push("an error without a code or a message".to_owned());
    }
    let (is_explained, is_due) = (error.contains_key(key), codes.contains(&text("code")));
    let listed = error.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    if is_explained != is_due || is_due && listed == 0 {
        violations.push(format!("{key} are for {codes:?}, and never empty there"));
    }
    if error.keys().any(|found| !["code", "message", key].contains(&found.as_str())) {
        violations.push("an error with a key that the envelope does not have".to_owned());
    }
    violations
}
