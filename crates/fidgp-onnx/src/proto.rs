//! The messages of an ONNX file, as far as they are used here. Fields that are not listed are skipped when read.

use prost::bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// A file: one graph, the versions of its operators, functions and metadata.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The program that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Versions of operators, by domain.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Free text by name.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Operators that are graphs themselves.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// The version of a domain's operators.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// The domain; ONNX's own is empty.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A name and a text.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The text.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Nodes in the order of their computation.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The graph's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants: weights among others.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Inputs; old files list the constants too.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Sparse constants, which are not understood.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<Unread>,
}

/// A message whose content is of no interest, only that it is there.
#[derive(Clone, PartialEq, Message)]
pub struct Unread {}

/// One application of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the inputs; an empty one is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the outputs.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The node's name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Its settings.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Whose operator it is; ONNX's own when empty.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions of one name is called.
    #[prost(string, tag = "8")]
    pub overload: String,
    /// Free text by name; PyTorch notes the module here.
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// A setting of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// A whole number.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A text.
    #[prost(bytes = "bytes", tag = "4")]
    pub s: Bytes,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph, which is not understood.
    #[prost(message, optional, tag = "6")]
    pub g: Option<Unread>,
    /// Numbers.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Whole numbers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Which of the fields holds the value.
    #[prost(enumeration = "AttributeKind", tag = "20")]
    pub r#type: i32,
    /// Within a function: the function's setting that this one is.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum AttributeKind {
    /// Not said.
    Undefined = 0,
    /// A number.
    Float = 1,
    /// A whole number.
    Int = 2,
    /// A text.
    String = 3,
    /// A tensor.
    Tensor = 4,
    /// A graph.
    Graph = 5,
    /// Numbers.
    Floats = 6,
    /// Whole numbers.
    Ints = 7,
    /// Texts.
    Strings = 8,
}

/// A constant.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// The shape.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// The type of its elements, see [`Element`](crate::Element).
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Its elements, when they are f32.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Its elements, when they are small whole numbers, truth values or bits of f16.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Its elements, when they are i64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Its name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Its elements as little-endian bytes.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Its elements, when they are f64.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Where its elements lie, when it is in another file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 when it is in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// An input or output.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it is.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// A type, of tensors alone.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// A tensor's element and shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// The element.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// The shape, where it is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One entry for each axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One axis.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// Its length, or the name of one that varies; neither when nothing is known.
    #[prost(oneof = "Length", tags = "1, 2")]
    pub value: Option<Length>,
}

/// The length of an axis.
#[derive(Clone, PartialEq, Oneof)]
pub enum Length {
    /// Fixed.
    #[prost(int64, tag = "1")]
    Fixed(i64),
    /// Variable, by name.
    #[prost(string, tag = "2")]
    Named(String),
}

/// An operator that is a graph itself.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// The operator's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of its inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of its outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Its nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Versions of the operators it uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Its domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Settings with a default.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Which of several functions of one name this is.
    #[prost(string, tag = "13")]
    pub overload: String,
}
