//! `/openapi.json` says what there is.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::running::Running;

/// Paths and methods, as the router has them.
fn routed() -> BTreeSet<(String, String)> {
    let source = include_str!("../../src/routes.rs");
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once("\", "));
    let each = |(path, methods): (&str, &str)| {
        let methods: Vec<_> =
            ["get", "post"].into_iter().filter(|method| methods.contains(&format!("{method}("))).collect();
        methods.into_iter().map(move |method| (path.to_owned(), method.to_owned())).collect::<Vec<_>>()
    };
    lines.flat_map(each).collect()
}

#[test]
fn every_path_is_described_and_every_described_path_is_there() {
    let server = Running::plain();
    let (status, document) = server.get("/openapi.json");
    assert_eq!((status, document["openapi"].as_str()), (200, Some("3.1.0")));
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((path.clone(), method.clone()));
            let asked = path.replace("{model}", "adder").replace("{version}", "1");
            let (status, head, body) =
                server.ask(&method.to_uppercase(), &asked, "Content-Type: application/json\r\n", b"{}");
            let answers = &operation["responses"][status.to_string()];
            assert!(answers.is_object(), "{method} {path} answered {status}, which is not described");
            let kind = head.split("content-type: ").nth(1).unwrap().split(['\r', ';']).next().unwrap().to_owned();
            let content = answers["content"].as_object().unwrap();
            assert!(content.contains_key(&kind), "{method} {path} answered {kind}, which is not described");
            if let (Ok(body), Some(schema)) = (serde_json::from_slice::<Value>(&body), content[&kind].get("schema")) {
                holds(&document, schema, &body, path);
            }
        }
    }
    assert_eq!(described, routed());
}

/// Whether a value has what its schema requires, and nothing of another type.
fn holds(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let named = document.pointer(&name[1..]).unwrap_or_else(|| panic!("{name} is not described"));
        return holds(document, named, value, place);
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{place}: {other} is no type"),
    };
    let right = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        _ => true,
    };
    assert!(right, "{place}: {value} is no {}", schema["type"]);
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{place}: {value} has no {name}");
    }
    let known = schema["properties"].as_object();
    if let (Some(known), Some(fields)) = (known, value.as_object()) {
        let unknown = fields.keys().find(|name| !known.contains_key(*name));
        assert!(unknown.is_none(), "{place}: {unknown:?} is not described");
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            holds(document, inner, value, &format!("{place}/{name}"));
        }
    }
    for value in value.as_array().into_iter().flatten() {
        holds(document, &schema["items"], value, place);
    }
}

#[test]
fn answers_are_as_described() {
    let server = Running::plain();
    let (_, document) = server.get("/openapi.json");
    let schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let (_, said) = server.post("/predict", &json!({"row": [1, 2]}));
    holds(&document, &schema("Predicted"), &said, "predict");
    assert_eq!(said["inputs"].as_array().unwrap().len(), 1);
    let (_, said) = server.post(crate::running::INFER, &crate::running::rows(&[[1.0, 2.0]]));
    holds(&document, &schema("InferResponse"), &said, "infer");
    assert_eq!(said["outputs"][0]["name"], "mean");
}
