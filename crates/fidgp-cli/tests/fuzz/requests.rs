//! Requests to the server, as its protocol reads them: bodies with and without tensors in bytes, and what they ask for.

use std::path::Path;

use fidgp_serve::protocol::{self, BadRequest, Data, Datatype, IndexRequest, InferRequest};
use fidgp_serve::{Column, Holds, Limits, Outputs, Signature, Takes};

use crate::targets::Target;

/// A table of a number, a text and a date.
fn signature() -> Signature {
    let columns = [("size", Holds::Number), ("town", Holds::Text), ("built", Holds::Date)];
    let columns: Vec<_> = columns
        .map(|(name, holds)| Column { name: name.to_owned(), holds, levels: vec!["Bonn".to_owned()] })
        .into_iter()
        .collect();
    let features = columns.iter().map(|column| column.name.clone()).collect();
    let takes = Takes::Rows { features, example: Vec::new(), columns };
    let gives = Outputs::Classes(vec!["a".to_owned(), "b".to_owned()]);
    Signature { takes, gives, levels: vec![0.9, 0.95], scores_ood: true, decides: true, draws: 8 }
}

/// Numbers alone.
fn numbers() -> Signature {
    let features = vec!["x".to_owned(), "y".to_owned()];
    Signature { takes: Takes::Rows { features, example: Vec::new(), columns: Vec::new() }, ..signature() }
}

/// A body, with the length of its JSON before it where tensors follow: `#12\n{…}bytes`.
fn read(_: &Path, input: &[u8]) -> Result<(), String> {
    let text = |error: BadRequest| error.0;
    let head = input.strip_prefix(b"#").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        Some((String::from_utf8_lossy(&rest[..end]).into_owned(), &rest[end + 1..]))
    });
    let (length, body) = head.map_or((None, input), |(length, body)| (Some(length), body));
    let limits = Limits::default();
    _ = IndexRequest::read(body);
    _ = protocol::check_control(body);
    let parts = protocol::split(body, length.as_deref()).map_err(text)?;
    let request = InferRequest::read(&parts, &limits).map_err(text)?;
    _ = request.check_address("model", "1");
    _ = protocol::wanted(&request, &signature());
    let found = [signature(), numbers()].map(|signature| {
        protocol::level(&request.parameters, &signature)
            .and(protocol::options(&request.parameters, &signature, &limits))
            .map_err(text)?;
        protocol::items(&request.inputs, &signature, &limits).map(drop).map_err(text)
    });
    let [one, other] = found;
    one.or(other)
}

pub fn of_requests() -> Target {
    let json = r#"{"id": "7", "parameters": {"draws": 8, "level": 0.9}, "inputs": [{"name": "input", "shape": [2, 2],
        "datatype": "FP64", "data": [0.5, 1, 2e-3, -4]}], "outputs": [{"name": "label", "parameters": {"binary_data": true}}]}"#;
    let cells = r#"{"inputs": [{"name": "size", "shape": [2], "datatype": "FP32", "data": [1.5, 2]},
        {"name": "town", "shape": [2], "datatype": "BYTES", "data": ["Bonn", "Kiel"]},
        {"name": "built", "shape": [2], "datatype": "BYTES", "data": ["2024-01-31", "1999-12-31"]}]}"#;
    let head = r#"{"inputs": [{"name": "input", "shape": [2, 2], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}"#;
    let tensor = Data::from_bytes(Datatype::Fp32, &[0; 16]).map(|data| data.to_bytes(Datatype::Fp32));
    let body = protocol::join(head, &[tensor.unwrap_or_default()]);
    let whole = [format!("#{}\n", head.len()).into_bytes(), body].concat();
    let corpus = vec![json.as_bytes().to_vec(), cells.as_bytes().to_vec(), whole, br#"{"ready": true}"#.to_vec()];
    Target { name: "request", weight: 1, corpus, read: Box::new(read), mend: |input| input }
}
