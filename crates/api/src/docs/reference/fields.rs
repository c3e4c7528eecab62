//! Describes fields and parameters in words: their name, their type, and what they are for.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::schema::ArrayItems;
use utoipa::openapi::{Object, RefOr, Schema};

use super::json;

/// The pattern of amounts, rates and fees.
const DECIMAL_PATTERN: &str = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$";
/// The longest list of values that the page shows in full. Only the list of error codes is longer.
const VALUES_MAX: usize = 8;

/// The schemas of the document, by name.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'a>(pub(super) &'a BTreeMap<String, RefOr<Schema>>);

/// A field or a parameter.
#[derive(Serialize)]
pub(super) struct Field {
    pub(super) name: String,
    /// Where a parameter stands; empty for a field.
    place: String,
    /// The type in words.
    kind: String,
    /// The object that the type names.
    object: String,
    /// The values it can have, where they are few.
    values: Vec<String>,
    /// Whether it is one of the error codes.
    is_code: bool,
    optional: bool,
    description: String,
    /// An example, as JSON; empty where the document has none.
    pub(super) example: String,
}

impl Schemas<'_> {
    /// The fields of an object, with those of the objects inside it.
    pub(super) fn fields(self, name: &str) -> Vec<Field> {
        let mut fields = Vec::new();
        if let Some(RefOr::T(Schema::Object(object))) = self.0.get(name) {
            self.collect("", object, &mut fields);
        }
        fields
    }

    fn collect(self, prefix: &str, object: &Object, fields: &mut Vec<Field>) {
        for (name, property) in &object.properties {
            let name_shown = format!("{prefix}{name}");
            let optional = !object.required.contains(name);
            fields.push(self.field(name_shown.clone(), optional, &json(property)));
            match property {
                RefOr::T(Schema::Object(inner)) => self.collect(&format!("{name_shown}."), inner, fields),
                RefOr::T(Schema::Array(array)) => {
                    if let ArrayItems::RefOrSchema(items) = &array.items
                        && let RefOr::T(Schema::Object(inner)) = &**items
                    {
                        self.collect(&format!("{name_shown}[]."), inner, fields);
                    }
                }
                _ => {}
            }
        }
    }

    fn field(self, name: String, optional: bool, schema: &Value) -> Field {
        let resolved = self.resolved(schema);
        let values: Vec<String> = strings(&resolved["enum"]);
        let (kind, object) = self.kind(schema);
        let is_code = values.len() > VALUES_MAX;
        Field {
            name,
            place: String::new(),
            kind,
            object,
            is_code,
            values: if is_code { Vec::new() } else { values },
            optional,
            description: text(&resolved["description"]),
            example: resolved["examples"].get(0).map(Value::to_string).unwrap_or_default(),
        }
    }

    /// A parameter of an operation.
    pub(super) fn parameter(self, parameter: &Value) -> Field {
        let optional = parameter["required"] != Value::Bool(true);
        let field = self.field(text(&parameter["name"]), optional, &parameter["schema"]);
        Field { place: text(&parameter["in"]), description: text(&parameter["description"]), ..field }
    }

    /// The type in words, and the object it names.
    fn kind(self, schema: &Value) -> (String, String) {
        let schema = match reference(schema) {
            // The page names an object, but shows a list of values in place.
            Some(name) if self.resolved(schema)["enum"].is_null() => return (String::new(), name.to_owned()),
            _ => self.resolved(schema),
        };
        let mut types = strings(&schema["type"]);
        types.sort_by_key(|kind| kind == "null");
        if types.first().is_some_and(|first| first == "array") {
            let (kind, object) = self.kind(&schema["items"]);
            let array = if types.len() > 1 { "nullable array of" } else { "array of" };
            return (format!("{array} {kind}").trim_end().to_owned(), object);
        }
        let mut kind = types.join(" or ");
        for detail in [text(&schema["format"]), pattern(&schema), range(&schema), default(&schema)] {
            if !detail.is_empty() {
                kind.push_str(", ");
                kind.push_str(&detail);
            }
        }
        (kind, String::new())
    }

    /// The schema itself, or the one it refers to; of an open set of values, those that are known.
    fn resolved(self, schema: &Value) -> Value {
        let Some(found) = reference(schema).and_then(|name| self.0.get(name)) else { return schema.clone() };
        let found = json(found);
        match found["anyOf"].get(0) {
            Some(known) => self.resolved(known),
            None => found,
        }
    }
}

/// The name of the schema that this one refers to.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")
}

fn pattern(schema: &Value) -> String {
    match schema["pattern"].as_str() {
        Some(DECIMAL_PATTERN) => "decimal".to_owned(),
        Some(other) => format!("like {other}"),
        None => String::new(),
    }
}

fn range(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(minimum), Value::Number(maximum)) => format!("{minimum} to {maximum}"),
        _ => String::new(),
    }
}

fn default(schema: &Value) -> String {
    schema.get("default").map(|value| format!("default {value}")).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The strings in a list, or the one string that stands in its place.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        Value::String(value) => vec![value.clone()],
        _ => Vec::new(),
    }
}
