//! The JSON schema of the configuration, for editors, made of the types that are read.
//!
//! It takes all that the reader takes, but for `null`, which the reader takes for a field that is left out. It does not
//! refuse all that the reader refuses: whether a regular expression is one, or whether a `hash` has its `hash_key`, is no
//! matter for a schema.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::fields::{CookieName, Dialects, HeaderName, HostName, Method, Name, OneOrMany};
use super::settings::Block;
use super::{Config, MAX_COST, checks};
use crate::keys::{Cost, KeyPart};
use crate::pattern::Pattern;

/// A character of a token, RFC 9110 section 5.6.2.
const TOKEN: &str = "[!#$%&'*+.^_`|~0-9A-Za-z-]";

/// The schema of the plugin's configuration. Draft 07 is what editors know best.
pub fn schema() -> Schema {
    let mut settings = SchemaSettings::draft07();
    // Before the transforms of the draft, which wrap what has been a choice between a type and null.
    settings.transforms.insert(0, Box::new(RecursiveTransform(without_null)));
    let mut schema = settings.into_generator().into_root_schema_for::<Config>();
    schema.insert("title".to_owned(), "Configuration of Sluice's Envoy plugin".into());
    schema
}

/// An `Option` is a field that may be left out.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

/// Types whose reader takes another one, and looks further into it.
macro_rules! read_as {
    ($($type:ty => $raw:ty),+ $(,)?) => {$(
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$raw as schemars::JsonSchema>::schema_name()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                <$raw as schemars::JsonSchema>::schema_id()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$raw as schemars::JsonSchema>::json_schema(generator)
            }
        }
    )+};
}
pub(super) use read_as;

/// Types that are written in a form that is shown where they stand.
macro_rules! written {
    ($($type:ty: $name:literal = $schema:expr),+ $(,)?) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

written! {
    HeaderName: "HeaderName" = text(&format!("^({TOKEN}+|:({}))$", any_case(&["authority", "method", "path", "scheme"]))),
    CookieName: "CookieName" = text(&format!("^{TOKEN}+$")),
    Method: "Method" = text(&format!("^{TOKEN}+$")),
    Name: "Name" = json_schema!({"type": "string", "minLength": 1}),
    HostName: "HostName" = host(),
    Block: "Block" = block(),
    // Not with the format `regex`: that is JavaScript's, which knows no `(?i)`.
    Pattern: "Pattern" = json_schema!({"type": "string"}),
    Dialects: "Dialects" = json_schema!({"anyOf": [
        {"enum": ["ietf", "x-ratelimit", "none"]},
        {"type": "array", "items": {"enum": ["ietf", "x-ratelimit"]}},
    ]}),
    checks::TemplatePart: "TemplatePart" = json_schema!({"type": "string", "allOf": [
        {"pattern": TEMPLATE},
        {"pattern": "\\{"},
    ]}),
    checks::Attribute: "Attribute" = json_schema!({"anyOf": [
        {"type": "string", "pattern": "^[^.]+(\\.[^.]+)*$"},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]}),
    super::answers::HeaderName: "DeniedHeaderName" = {
        let taken = any_case(&super::answers::TAKEN);
        text(&format!("^(?!({taken}|{})$){TOKEN}+$", any_case(&["content-type"])))
    },
    super::answers::HeaderValue: "DeniedHeaderValue" = json_schema!({"type": "string", "allOf": [
        {"pattern": "^[ -~]*$"},
        {"pattern": PLACES},
    ]}),
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
    }
}

impl JsonSchema for Cost {
    fn schema_name() -> Cow<'static, str> {
        "Cost".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let told = generator.subschema_for::<checks::RawCost>();
        json_schema!({"anyOf": [whole::<0, MAX_COST>(generator), told]})
    }
}

impl JsonSchema for KeyPart {
    fn schema_name() -> Cow<'static, str> {
        "KeyPart".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<checks::RawKeyPart>();
        json_schema!({"anyOf": [{"enum": ["client_ip", "path", "method", "host"]}, object]})
    }
}

/// A path that requests may have.
const PATH: &str = "^/[^?#]*$";
/// Segments that are literal or a placeholder, and perhaps `...` as the last.
const TEMPLATE: &str = r"^(?=/)(/(\{[^{}/?#]+\}|(?!\.\.\.(/|$))[^{}/?#]*))*(/\.\.\.)?$";
/// No word in braces but those that are filled in.
const PLACES: &str = r"^(?![\s\S]*\{(?!(policy|retry_after)\})[A-Za-z_-]+\})";

fn text(pattern: &str) -> Schema {
    json_schema!({"type": "string", "pattern": pattern})
}

/// A pattern for any of these names, however they are spelt.
fn any_case(names: &[&str]) -> String {
    let spelt = |name: &&str| -> String {
        let letter = |char: char| match char {
            'a'..='z' => format!("[{}{char}]", char.to_ascii_uppercase()),
            _ => char.to_string(),
        };
        name.chars().map(letter).collect()
    };
    names.iter().map(spelt).collect::<Vec<_>>().join("|")
}

/// Printable ASCII that can stand in a host, without a port: a colon is only in brackets.
fn host() -> Schema {
    text(r#"^(\*\.)?(?!\.?$)(?!.*:[^\]]*$)[!"$-)+.0->A-~-]+$"#)
}

fn block() -> Schema {
    let v4 = r"[0-9]{1,3}(\.[0-9]{1,3}){3}(/0*([12]?[0-9]|3[0-2]))?";
    let v6 = r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(/0*([1-9]?[0-9]|1[01][0-9]|12[0-8]))?";
    text(&format!("^({v4}|{v6})$"))
}

pub(super) fn whole<const MIN: u64, const MAX: u64>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
}

pub(super) fn path(_: &mut SchemaGenerator) -> Schema {
    text(PATH)
}

pub(super) fn template(_: &mut SchemaGenerator) -> Schema {
    text(TEMPLATE)
}

pub(super) fn authority(_: &mut SchemaGenerator) -> Schema {
    text("^[!-~]+$")
}

pub(super) fn variable(_: &mut SchemaGenerator) -> Schema {
    text("^[A-Za-z_][A-Za-z0-9_]*$")
}

pub(super) fn policy(_: &mut SchemaGenerator) -> Schema {
    text("^[A-Za-z0-9_.-]+$")
}

/// 1 ms to 10 s.
pub(super) fn timeout(_: &mut SchemaGenerator) -> Schema {
    text("^0*(([1-9][0-9]{0,3}|10000)ms|([1-9]|10)s)$")
}

/// 0 to 60 s.
pub(super) fn max_age(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        text("^(0|0*([0-9]{1,4}|[1-5][0-9]{4}|60000)ms|0*([1-5]?[0-9]|60)s)$"),
        {"const": 0},
    ]})
}

pub(super) fn leases(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<super::answers::RawLeases>();
    json_schema!({"anyOf": [{"enum": ["off", false]}, object]})
}

/// At least so many bytes, where a schema only counts characters.
pub(super) fn hash_key(_: &mut SchemaGenerator) -> Schema {
    let bytes = crate::keys::MIN_HASH_KEY;
    json_schema!({"type": "string", "anyOf": [{"minLength": bytes}, {"pattern": "[^\\x00-\\x7f]"}]})
}

/// 400 to 599, but for those that a missing key is no reason for.
pub(super) fn missing_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 400, "maximum": 599, "not": {"enum": [405, 426]}})
}

pub(super) fn challenge(_: &mut SchemaGenerator) -> Schema {
    text(&format!("^{TOKEN}+( [ -~]*)?$"))
}

pub(super) fn status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": [429, 503]})
}

pub(super) fn body(_: &mut SchemaGenerator) -> Schema {
    text(PLACES)
}

pub(super) fn content_type(_: &mut SchemaGenerator) -> Schema {
    text("^[ -~]*/[ -~]*$")
}

/// One of these fields, and no other of them.
pub(super) fn one_of(fields: &[&str]) -> Value {
    fields.iter().map(|field| serde_json::json!({"required": [field]})).collect()
}
