//! A network of fidgp's own written down as a graph, in memory: what another framework's exporter does for its networks.

use std::collections::{BTreeMap, BTreeSet};

use fidgp::layer::Conv2dConfig;
use prost::Message;
use tch::Tensor;

use crate::error::{Error, Result};
use crate::proto::{
    AttributeKind, AttributeProto, DimensionProto, GraphProto, Length, ModelProto, OperatorSetIdProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::writer::Writer;

/// The version of ONNX's operators that is written.
const OPSET: i64 = 17;
const FORMAT: i64 = 8;

/// The name of the input.
const INPUT: &str = "input";

/// A graph that is being written down, step by step. Every step takes the names of values and gives that of a new one.
#[derive(Debug)]
pub struct Sketch<'a> {
    writer: Writer,
    parameters: &'a BTreeMap<String, Tensor>,
    written: BTreeSet<String>,
    steps: usize,
}

impl<'a> Sketch<'a> {
    /// A graph with one input, and the name of that. The parameters are by layer: `fc.weight`, `fc.bias`.
    ///
    /// # Shapes
    /// `shape`: that of one example
    pub fn new(parameters: &'a BTreeMap<String, Tensor>, shape: &[i64]) -> (Self, String) {
        let graph = GraphProto { name: "fidgp".to_owned(), input: vec![port(INPUT, shape)], ..GraphProto::default() };
        (Self { writer: Writer { graph }, parameters, written: BTreeSet::new(), steps: 0 }, INPUT.to_owned())
    }

    /// A convolution over two axes.
    ///
    /// # Errors
    /// When the layer has no parameters.
    pub fn conv(&mut self, x: &str, layer: &str, config: &Conv2dConfig) -> Result<String> {
        let mut inputs = vec![x.to_owned(), self.parameter(layer, "weight")?];
        if config.bias {
            inputs.push(self.parameter(layer, "bias")?);
        }
        let [vertical, horizontal] = config.padding;
        let lists = [
            ("strides", config.stride.to_vec()),
            ("pads", vec![vertical, horizontal, vertical, horizontal]),
            ("dilations", config.dilation.to_vec()),
            ("kernel_shape", config.kernel.to_vec()),
        ];
        self.writer.node_with("Conv", &refs(&inputs), layer, &[("group", config.groups)]);
        self.lists(&lists);
        Ok(layer.to_owned())
    }

    /// `x Wᵀ + b`
    ///
    /// # Errors
    /// When the layer has no parameters.
    pub fn linear(&mut self, x: &str, layer: &str, bias: bool) -> Result<String> {
        let mut inputs = vec![x.to_owned(), self.parameter(layer, "weight")?];
        if bias {
            inputs.push(self.parameter(layer, "bias")?);
        }
        Ok(self.writer.node_with("Gemm", &refs(&inputs), layer, &[("transB", 1)]))
    }

    /// Batch normalisation with running statistics, ε = 1e-5.
    ///
    /// # Errors
    /// When the layer has no parameters.
    pub fn batch_norm(&mut self, x: &str, layer: &str) -> Result<String> {
        let mut inputs = vec![x.to_owned()];
        for part in ["weight", "bias", "running_mean", "running_var"] {
            inputs.push(self.parameter(layer, part)?);
        }
        Ok(self.writer.node("BatchNormalization", &refs(&inputs), layer))
    }

    /// An operator without settings: `Relu`, `Add`, ….
    pub fn apply(&mut self, operator: &str, inputs: &[&str]) -> String {
        let name = self.step();
        self.writer.node(operator, inputs, &name)
    }

    /// A constant number.
    pub fn number(&mut self, value: f64) -> String {
        let name = self.step();
        self.writer.number(&name, value)
    }

    /// The largest of every window.
    pub fn max_pool(&mut self, x: &str, kernel: i64, stride: i64, padding: i64) -> String {
        let name = self.step();
        self.writer.node("MaxPool", &[x], &name);
        self.lists(&[("kernel_shape", vec![kernel; 2]), ("strides", vec![stride; 2]), ("pads", vec![padding; 4])]);
        name
    }

    /// The mean over all pixels of every channel. `[N, C, H, W]` → `[N, C]`
    pub fn average(&mut self, x: &str) -> String {
        let pooled = self.apply("GlobalAveragePool", &[x]);
        let name = self.step();
        self.writer.node_with("Flatten", &[&pooled], &name, &[("axis", 1)])
    }

    /// Every so-many-th pixel, with channels of zeros before and after.
    pub fn thinned(&mut self, x: &str, stride: [i64; 2], [before, after]: [i64; 2]) -> String {
        let name = self.step();
        let whole = |writer: &mut Writer, what: &str, values: &[i64]| writer.whole(&format!("{name}.{what}"), values);
        let starts = whole(&mut self.writer, "starts", &[0, 0]);
        let ends = whole(&mut self.writer, "ends", &[i64::MAX, i64::MAX]);
        let axes = whole(&mut self.writer, "axes", &[2, 3]);
        let strides = whole(&mut self.writer, "strides", &stride);
        let pads = whole(&mut self.writer, "pads", &[0, before, 0, 0, 0, after, 0, 0]);
        let sampled = self.apply("Slice", &[x, &starts, &ends, &axes, &strides]);
        self.writer.node("Pad", &[&sampled, &pads], &name)
    }

    /// The graph, which gives one value.
    ///
    /// # Shapes
    /// `shape`: that of one example
    ///
    /// # Errors
    /// When a parameter was not used.
    pub fn finish(mut self, output: &str, shape: &[i64]) -> Result<Vec<u8>> {
        if let Some(left) = self.parameters.keys().find(|name| !self.written.contains(*name)) {
            return Err(Error::graph(format!("`{left}` has no place in the graph of this network")));
        }
        self.writer.graph.output.push(port(output, shape));
        let model = ModelProto {
            ir_version: FORMAT,
            producer_name: "fidgp".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: OPSET }],
            graph: Some(self.writer.graph),
            ..ModelProto::default()
        };
        Ok(model.encode_to_vec())
    }

    fn parameter(&mut self, layer: &str, part: &str) -> Result<String> {
        let name = format!("{layer}.{part}");
        let held = self.parameters.get(&name);
        let held = held.ok_or_else(|| Error::graph(format!("the network has no `{name}`")))?;
        if self.written.insert(name.clone()) {
            self.writer.constant(&name, held)?;
        }
        Ok(name)
    }

    fn step(&mut self) -> String {
        self.steps += 1;
        format!("step{}", self.steps)
    }

    /// Gives the last node settings that are lists.
    fn lists(&mut self, settings: &[(&str, Vec<i64>)]) {
        let setting = |(name, ints): &(&str, Vec<i64>)| AttributeProto {
            name: (*name).to_owned(),
            ints: ints.clone(),
            r#type: AttributeKind::Ints as i32,
            ..AttributeProto::default()
        };
        if let Some(node) = self.writer.graph.node.last_mut() {
            node.attribute.extend(settings.iter().map(setting));
        }
    }
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// An input or output in f32, of any number of examples.
fn port(name: &str, shape: &[i64]) -> ValueInfoProto {
    let fixed = shape.iter().map(|size| DimensionProto { value: Some(Length::Fixed(*size)) });
    let rows = DimensionProto { value: Some(Length::Named("N".to_owned())) };
    let shape = TensorShapeProto { dim: std::iter::once(rows).chain(fixed).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape: Some(shape) });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) }
}
