//! Reads the reference part of the page, operations and objects, from the OpenAPI document.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::path::Operation as Documented;
use utoipa::openapi::{OpenApi, RefOr, Response, Schema};

use super::examples;

mod fields;

use fields::{Field, Schemas};

/// Headers that every answer or every error has. The guide explains them once; the reference omits them.
const HEADERS_EVERYWHERE: [&str; 2] = ["X-Request-Id", "Content-Language"];

/// The whole reference.
pub(super) struct Reference {
    pub(super) groups: Vec<Group>,
    pub(super) objects: Vec<Object>,
}

/// Operations on one noun.
#[derive(Serialize)]
pub(super) struct Group {
    /// Where a link leads to.
    id: String,
    name: String,
    operations: Vec<Operation>,
}

/// One operation.
#[derive(Serialize)]
struct Operation {
    id: String,
    method: &'static str,
    path: String,
    summary: String,
    description: String,
    parameters: Vec<Field>,
    request: Vec<Field>,
    answers: Vec<Answer>,
    sample: String,
    answer_sample: &'static str,
}

/// One documented answer.
#[derive(Serialize)]
struct Answer {
    status: String,
    meaning: String,
    /// The object in its body.
    object: String,
    /// The error codes it can have.
    codes: Vec<String>,
    headers: Vec<String>,
}

/// An object of the API.
#[derive(Serialize)]
pub(super) struct Object {
    name: String,
    description: String,
    fields: Vec<Field>,
}

/// The shell variables in samples of calls.
#[derive(Clone, Copy)]
pub(super) struct Variables {
    /// Where the API is.
    pub(super) url: &'static str,
    /// Who asks.
    pub(super) credential: &'static str,
}

impl Reference {
    /// Reads the document.
    pub(super) fn of(document: &OpenApi, variables: Variables) -> Reference {
        let nothing = BTreeMap::new();
        let schemas = Schemas(document.components.as_ref().map_or(&nothing, |found| &found.schemas));
        let mut groups: Vec<Group> = Vec::new();
        for (path, item) in &document.paths.paths {
            let methods = [
                ("GET", &item.get),
                ("PUT", &item.put),
                ("POST", &item.post),
                ("PATCH", &item.patch),
                ("DELETE", &item.delete),
            ];
            for (method, documented) in methods {
                let Some(documented) = documented else { continue };
                let operation = operation(schemas, method, path, documented, variables);
                let name = documented.tags.iter().flatten().next().cloned().unwrap_or_default();
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.operations.push(operation),
                    None => groups.push(Group { id: group_id(&name), name, operations: vec![operation] }),
                }
            }
        }
        Reference { groups, objects: objects(schemas) }
    }

    /// Every error code that at least one operation answers with.
    pub(super) fn codes(&self) -> Vec<&str> {
        let operations = self.groups.iter().flat_map(|group| &group.operations);
        let answers = operations.flat_map(|operation| &operation.answers);
        answers.flat_map(|answer| &answer.codes).map(String::as_str).collect()
    }
}

fn group_id(name: &str) -> String {
    format!("operations-{}", name.to_lowercase().replace(' ', "-"))
}

fn operation(
    schemas: Schemas<'_>,
    method: &'static str,
    path: &str,
    documented: &Documented,
    variables: Variables,
) -> Operation {
    let parameters = documented.parameters.iter().flatten();
    let request = documented.request_body.as_ref().and_then(|found| match found {
        RefOr::T(body) => schema_name(body.content.values().next()?),
        RefOr::Ref(_) => None,
    });
    let request = request.map(|name| schemas.fields(&name)).unwrap_or_default();
    let answers: Vec<Answer> = documented
        .responses
        .responses
        .iter()
        .filter_map(|(status, found)| match found {
            RefOr::T(response) => Some(answer(status, response)),
            RefOr::Ref(_) => None,
        })
        .collect();
    let shown = answers.iter().find_map(|answer| examples::answer(&answer.object));
    Operation {
        id: documented.operation_id.clone().unwrap_or_default(),
        method,
        path: path.to_owned(),
        summary: documented.summary.clone().unwrap_or_default(),
        description: documented.description.clone().unwrap_or_default(),
        parameters: parameters.map(|parameter| schemas.parameter(&json(parameter))).collect(),
        sample: sample(method, path, &request, variables),
        request,
        answers,
        answer_sample: shown.unwrap_or_default(),
    }
}

fn answer(status: &str, response: &Response) -> Answer {
    let content = response.content.values().next();
    let codes = content.iter().flat_map(|content| match content {
        RefOr::T(content) => content.examples.keys().cloned().collect(),
        RefOr::Ref(_) => Vec::new(),
    });
    let headers = response.headers.keys().filter(|name| !HEADERS_EVERYWHERE.contains(&name.as_str()));
    Answer {
        status: status.to_owned(),
        meaning: response.description.clone(),
        object: content.and_then(schema_name).unwrap_or_default(),
        codes: codes.collect(),
        headers: headers.cloned().collect(),
    }
}

/// The objects by name. The page shows a schema without fields where a field uses it.
fn objects(schemas: Schemas<'_>) -> Vec<Object> {
    let named = schemas.0.iter().filter_map(|(name, schema)| match schema {
        RefOr::T(Schema::Object(object)) if !object.properties.is_empty() => Some((name, object)),
        _ => None,
    });
    let object = |(name, object): (&String, &utoipa::openapi::Object)| Object {
        name: name.clone(),
        description: object.description.clone().unwrap_or_default(),
        fields: schemas.fields(name),
    };
    named.map(object).collect()
}

/// Writes a call with curl. Shell variables take the place of the parameters in the path.
fn sample(method: &str, path: &str, request: &[Field], variables: Variables) -> String {
    let path: String = path
        .split('/')
        .map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => format!("${}", name.to_uppercase()),
            None => part.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("/");
    let method = if method == "GET" { String::new() } else { format!("-X {method} ") };
    let Variables { url, credential } = variables;
    let mut call = format!("curl {method}\"${url}{path}\"");
    // Health and metrics are open to whoever reaches them.
    if path.contains("/v1/") {
        call.extend([" \\\n  -H \"Authorization: Bearer $", credential, "\""]);
    }
    if !request.is_empty() {
        let fields: Vec<String> =
            request.iter().map(|field| format!("    \"{}\": {}", field.name, field.example)).collect();
        call.push_str(" \\\n  -H \"Content-Type: application/json\" \\\n  -d '{\n");
        call.push_str(&fields.join(",\n"));
        call.push_str("\n  }'");
    }
    call
}

fn schema_name(content: &RefOr<utoipa::openapi::Content>) -> Option<String> {
    let RefOr::T(content) = content else { return None };
    fields::reference(&json(content.schema.as_ref()?)).map(str::to_owned)
}

/// A part of the document as the service serves it. The document holds nothing that JSON cannot express.
fn json(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
