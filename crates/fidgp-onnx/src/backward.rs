//! What reaches the values of a graph from its outputs, written as nodes: one rule for each operator.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};
use crate::proto::{AttributeKind, AttributeProto, NodeProto};
use crate::writer::Writer;

/// Derivatives of a network's outputs by the values before them. Those of several outputs stand below each other, `[N·K, ..]`.
pub(crate) struct Backward<'a> {
    pub writer: &'a mut Writer,
    /// Values that depend on the input.
    data: BTreeSet<String>,
    /// Values that depend on a layer whose derivatives are wanted: nothing before them is followed.
    reached: BTreeSet<String>,
    pub gradients: BTreeMap<String, String>,
    /// Values once for each output, where there are several.
    repeated: BTreeMap<String, String>,
    pub outputs: i64,
    count: usize,
}

/// Values that depend on some others, by name.
fn behind<'a>(nodes: &[NodeProto], first: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = first.into_iter().map(str::to_owned).collect();
    for node in nodes {
        if node.input.iter().any(|name| found.contains(name)) {
            found.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    found
}

impl<'a> Backward<'a> {
    /// For derivatives of so many outputs by the results of some nodes.
    pub(crate) fn new(writer: &'a mut Writer, x: &str, layers: &[&str], outputs: i64) -> Self {
        let nodes = &writer.graph.node;
        let (data, reached) = (behind(nodes, [x]), behind(nodes, layers.iter().copied()));
        Self { writer, data, reached, gradients: BTreeMap::new(), repeated: BTreeMap::new(), outputs, count: 0 }
    }
}

impl Backward<'_> {
    pub(crate) fn make(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.make_with(operator, inputs, &[])
    }

    pub(crate) fn make_with(&mut self, operator: &str, inputs: &[&str], settings: &[(&str, i64)]) -> String {
        self.count += 1;
        self.writer.node_with(operator, inputs, &format!("fidgp/derivative{}", self.count), settings)
    }

    pub(crate) fn number(&mut self, value: f64) -> String {
        self.count += 1;
        self.writer.number(&format!("fidgp/number{}", self.count), value)
    }

    pub(crate) fn list(&mut self, values: &[i64]) -> String {
        self.count += 1;
        self.writer.whole(&format!("fidgp/list{}", self.count), values)
    }

    /// Every output by itself: rows of the identity, for each example. The first of several outputs alone where one is asked for.
    pub(crate) fn seed(&mut self, output: &str, columns: i64) -> Result<()> {
        let eye =
            Tensor::eye(columns.max(1), (Kind::Float, Device::Cpu)).f_narrow(0, 0, self.outputs)?.f_unsqueeze(0)?;
        let (eye, zero) = (self.writer.constant("fidgp/identity", &eye)?, self.number(0.0));
        let (wide, flat) = (self.list(&[1]), self.list(&[-1, columns]));
        let zeros = self.make("Mul", &[output, &zero]);
        let zeros = self.make("Unsqueeze", &[&zeros, &wide]);
        let seed = self.make("Add", &[&zeros, &eye]); // [N, K, columns]
        let seed = self.make("Reshape", &[&seed, &flat]);
        self.gradients.insert(output.to_owned(), seed);
        Ok(())
    }

    /// A value of the forward pass, every row once for each output.
    pub(crate) fn each(&mut self, name: &str) -> String {
        if self.outputs == 1 || !self.data.contains(name) {
            return name.to_owned();
        }
        if let Some(known) = self.repeated.get(name) {
            return known.clone();
        }
        let rows = self.rows(name);
        let repeated = self.make("Gather", &[name, &rows]);
        self.repeated.insert(name.to_owned(), repeated.clone());
        repeated
    }

    /// The same of a value that was made here.
    pub(crate) fn each_of(&mut self, name: &str) -> String {
        self.data.insert(name.to_owned());
        self.each(name)
    }

    /// A value in f64.
    pub(crate) fn wide(&mut self, value: &str) -> String {
        const DOUBLE: i64 = 11;
        self.make_with("Cast", &[value], &[("to", DOUBLE)])
    }

    /// The last two of three axes exchanged.
    pub(crate) fn turned(&mut self, cube: &str) -> String {
        let turned = self.make("Transpose", &[cube]);
        let order = AttributeProto {
            name: "perm".to_owned(),
            ints: vec![0, 2, 1],
            r#type: AttributeKind::Ints as i32,
            ..AttributeProto::default()
        };
        self.writer.graph.node.last_mut().into_iter().for_each(|node| node.attribute.push(order.clone()));
        turned
    }

    /// 0 K times, 1 K times, up to the number of examples.
    fn rows(&mut self, like: &str) -> String {
        if let Some(known) = self.repeated.get("") {
            return known.clone();
        }
        let (one, first, outputs) = (self.list(&[1]), self.list(&[0]), self.list(&[self.outputs]));
        let shape = self.make("Shape", &[like]);
        let count = self.make("Slice", &[&shape, &first, &one]);
        let all = self.make("Mul", &[&count, &outputs]);
        let axis = self.list(&[0]);
        let [end, start, step] = [&all, &first, &one].map(|value| self.make("Squeeze", &[value, &axis]));
        let range = self.make("Range", &[&start, &end, &step]);
        let rows = self.make("Div", &[&range, &outputs]);
        self.repeated.insert(String::new(), rows.clone());
        rows
    }

    /// Passes what reaches a node's result on to its inputs.
    pub(crate) fn node(&mut self, node: &NodeProto) -> Result<()> {
        let Some(g) = node.output.first().and_then(|name| self.gradients.get(name)).cloned() else { return Ok(()) };
        for (place, input) in node.input.iter().enumerate() {
            if self.reached.contains(input) {
                let own = self.rule(node, place, &g)?;
                let sum = match self.gradients.get(input).cloned() {
                    Some(other) => self.make("Add", &[&other, &own]),
                    None => own,
                };
                self.gradients.insert(input.clone(), sum);
            }
        }
        Ok(())
    }

    /// What reaches one input of a node.
    fn rule(&mut self, node: &NodeProto, place: usize, g: &str) -> Result<String> {
        let other = node.input.get(1 - place.min(1)).map_or("", String::as_str);
        if !DERIVED.contains(&node.op_type.as_str()) {
            return Err(unknown(node, &node.op_type));
        }
        let (x, y, other) = (&*self.each(&node.input[place]), &*self.each(&node.output[0]), &*self.each(other));
        Ok(match (node.op_type.as_str(), place) {
            ("Identity" | "Dropout" | "Sub", 0) | ("Add", _) => g.to_owned(),
            ("Sub", _) => self.make("Neg", &[g]),
            ("Mul", _) => self.make("Mul", &[g, other]),
            ("Div", 0) => self.make("Div", &[g, other]),
            ("Flatten" | "Reshape" | "Squeeze" | "Unsqueeze", 0) => {
                let shape = self.make("Shape", &[x]);
                self.make("Reshape", &[g, &shape])
            }
            ("Gemm", 0) if (float(node, "alpha", 1.0) - 1.0).abs() < f64::EPSILON && int(node, "transA", 0) == 0 => {
                self.make_with("Gemm", &[g, other], &[("transB", 1 - int(node, "transB", 0))])
            }
            ("MatMul", 0) => {
                let turned = self.make("Transpose", &[other]); // two axes: these are exchanged
                self.make("MatMul", &[g, &turned])
            }
            ("BatchNormalization", 0) => self.batch_norm(node, g),
            (_, 0) => self.activation(node, (x, y), g)?,
            (operator, _) => return Err(unknown(node, operator)),
        })
    }

    fn batch_norm(&mut self, node: &NodeProto, g: &str) -> String {
        let epsilon = self.number(float(node, "epsilon", 1e-5));
        let variance = self.make("Add", &[&node.input[4], &epsilon]);
        let sd = self.make("Sqrt", &[&variance]);
        let factor = self.make("Div", &[&node.input[1], &sd]);
        self.make("Mul", &[g, &factor])
    }

    /// `g f'(x)`, y being f(x).
    fn activation(&mut self, node: &NodeProto, (x, y): (&str, &str), g: &str) -> Result<String> {
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let slope = match node.op_type.as_str() {
            "Relu" => {
                let above = self.make("Greater", &[x, &zero]);
                return Ok(self.make("Where", &[&above, g, &zero]));
            }
            "LeakyRelu" | "Elu" => {
                let elu = node.op_type == "Elu";
                let alpha = self.number(float(node, "alpha", if elu { 1.0 } else { 0.01 }));
                let below = if elu { self.make("Add", &[y, &alpha]) } else { alpha };
                let above = self.make("Greater", &[x, &zero]);
                self.make("Where", &[&above, &one, &below])
            }
            "Tanh" => {
                let square = self.make("Mul", &[y, y]);
                self.make("Sub", &[&one, &square])
            }
            "Sigmoid" => {
                let rest = self.make("Sub", &[&one, y]);
                self.make("Mul", &[y, &rest])
            }
            "Softplus" => self.make("Sigmoid", &[x]),
            "Sin" => self.make("Cos", &[x]),
            "Erf" => {
                let square = self.make("Mul", &[x, x]);
                let minus = self.make("Neg", &[&square]);
                let bell = self.make("Exp", &[&minus]);
                let factor = self.number(std::f64::consts::FRAC_2_SQRT_PI);
                self.make("Mul", &[&bell, &factor])
            }
            operator => return Err(unknown(node, operator)),
        };
        Ok(self.make("Mul", &[g, &slope]))
    }
}

fn unknown(node: &NodeProto, operator: &str) -> Error {
    let name = if node.name.is_empty() { &node.output[0] } else { &node.name };
    Error::graph(format!(
        "node `{name}` ({operator}) has no derivative that is written as a graph; export draws with --draws K, or the mean"
    ))
}

fn setting<'a>(node: &'a NodeProto, name: &str, kind: AttributeKind) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name && attribute.r#type() == kind)
}

fn float(node: &NodeProto, name: &str, default: f64) -> f64 {
    setting(node, name, AttributeKind::Float).map_or(default, |attribute| f64::from(attribute.f))
}

pub(crate) fn int(node: &NodeProto, name: &str, default: i64) -> i64 {
    setting(node, name, AttributeKind::Int).map_or(default, |attribute| attribute.i)
}

/// Operators with a rule.
const DERIVED: [&str; 21] = [
    "Add",
    "BatchNormalization",
    "Div",
    "Dropout",
    "Elu",
    "Erf",
    "Flatten",
    "Gemm",
    "Identity",
    "LeakyRelu",
    "MatMul",
    "Mul",
    "Relu",
    "Reshape",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Squeeze",
    "Sub",
    "Tanh",
    "Unsqueeze",
];
