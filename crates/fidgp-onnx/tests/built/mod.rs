//! Graphs made by hand.
#![allow(dead_code, reason = "every test file uses some of them")]

#[path = "../../src/proto.rs"]
#[allow(missing_docs)]
pub mod proto;

use std::path::Path;

use prost::Message;
use proto::*;

pub fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: operator.to_owned(),
        name: format!("the {operator}"),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: outputs.iter().map(ToString::to_string).collect(),
        ..NodeProto::default()
    }
}

pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), i: value, r#type: AttributeKind::Int as i32, ..AttributeProto::default() }
}

pub fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        s: value.as_bytes().to_vec().into(),
        r#type: AttributeKind::String as i32,
        ..AttributeProto::default()
    }
}

pub fn ints(name: &str, value: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        ints: value.to_vec(),
        r#type: AttributeKind::Ints as i32,
        ..AttributeProto::default()
    }
}

pub fn whole(name: &str, values: &[i64]) -> TensorProto {
    let dims = vec![values.len() as i64];
    TensorProto { name: name.to_owned(), dims, data_type: 7, int64_data: values.to_vec(), ..TensorProto::default() }
}

pub fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count = dims.iter().fold(1i64, |product, size| product.wrapping_mul(*size)).clamp(0, 1000) as usize;
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: 1,
        float_data: vec![0.5; count],
        ..TensorProto::default()
    }
}

pub fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.to_owned(), r#type: None }
}

pub fn model(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> ModelProto {
    let graph = GraphProto {
        node: nodes,
        name: "graph".to_owned(),
        initializer: constants,
        input: vec![value("x")],
        output: vec![value("y")],
        sparse_initializer: Vec::new(),
    };
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..ModelProto::default()
    }
}

pub fn written(folder: &Path, model: &ModelProto) -> std::path::PathBuf {
    let file = folder.join("model.onnx");
    std::fs::write(&file, model.encode_to_vec()).unwrap();
    file
}
