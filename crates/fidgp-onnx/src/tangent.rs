//! A graph beside its own derivatives: the variance that a linearised posterior gives the first output.
//!
//! What reaches the output from a layer is written as nodes, one rule for each operator ([`Backward::rule`]). Of a linear layer with
//! inputs a and signals g, `J = σ (A_r g)(A_c a)ᵀ`; the variance is `‖Rᵀ vec J‖²` with `Σ = R Rᵀ`, summed over all layers.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};
use crate::import::Import;
use crate::names;
use crate::proto::{AttributeKind, AttributeProto, NodeProto};
use crate::writer::Writer;

/// A Gaussian over the inducing matrices, around the weights that are exported.
#[derive(Debug)]
pub struct Linearised {
    /// Its layers, in the order of `root`'s rows.
    pub layers: Vec<LinearisedLayer>,
    /// R with `Σ = R Rᵀ`. `[D, D]`, D the numbers in all inducing matrices
    pub root: Tensor,
    /// What the variance of the noise is divided by.
    pub curvature: f64,
    /// Outputs of the network; the first is the mean.
    pub outputs: i64,
}

/// How a layer carries its inducing matrix: `W = σ A_rᵀ V A_c`.
#[derive(Debug)]
pub struct LinearisedLayer {
    /// Its name.
    pub name: String,
    /// A_r. `[R, d_out]`
    pub row: Tensor,
    /// A_c, a bias being the last column. `[C, d_in]`
    pub col: Tensor,
    /// Whether there is a bias.
    pub bias: bool,
    /// σ.
    pub scale: f64,
    /// What the conditional adds, where it is kept.
    pub conditional: Option<OwnNoise>,
}

/// The part of a layer's weights that its inducing matrix leaves open.
#[derive(Clone, Copy, Debug)]
pub struct OwnNoise {
    /// λ².
    pub lambda_squared: f64,
    /// Whether what the inducing matrix explains is taken off.
    pub exact: bool,
}

/// Writes the variance of the first column of an output; its name. `[N]`
pub(crate) fn variance(
    writer: &mut Writer,
    import: &Import,
    law: &Linearised,
    (x, output): (&str, &str),
) -> Result<String> {
    let nodes = writer.graph.node.clone();
    let mut backward = Backward { writer, data: data(&nodes, x), gradients: BTreeMap::new(), count: 0 };
    backward.seed(output, law.outputs)?;
    for node in nodes.iter().rev() {
        backward.node(node)?;
    }
    let mut parts = Vec::new();
    let mut own = Vec::new();
    for layer in &law.layers {
        let (input, output) = ends(&nodes, import, layer)?;
        let signal = backward.gradients.get(output).cloned();
        let signal =
            signal.ok_or_else(|| Error::graph(format!("nothing of layer `{}` reaches the output", layer.name)))?;
        let jacobian = backward.jacobian(layer, input, &signal)?;
        own.extend(backward.own(layer, input, &signal, &jacobian));
        parts.push(jacobian);
    }
    let names: Vec<&str> = parts.iter().map(String::as_str).collect();
    let all = backward.writer.node_with("Concat", &names, "fidgp/jacobian", &[("axis", 1)]);
    let root = backward.writer.constant("fidgp/root", &law.root)?;
    let turned = backward.writer.node("MatMul", &[&all, &root], "fidgp/turned");
    let explained = backward.energy(&turned);
    Ok(own.iter().fold(explained, |sum, one| backward.make("Add", &[&sum, one])))
}

/// Values that depend on the input.
fn data(nodes: &[NodeProto], x: &str) -> BTreeSet<String> {
    let mut data = BTreeSet::from([x.to_owned()]);
    for node in nodes {
        if node.input.iter().any(|name| data.contains(name)) {
            data.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    data
}

/// Input and output of the product with a layer's weight.
fn ends<'a>(nodes: &'a [NodeProto], import: &Import, layer: &LinearisedLayer) -> Result<(&'a str, &'a str)> {
    let variable = format!("{}.weight", layer.name);
    let origin = import.origins.iter().find(|origin| origin.variable == variable);
    let origin = origin.ok_or_else(|| Error::graph(format!("`{variable}` is no initialiser of the graph")))?;
    let mut names = BTreeSet::from([names::in_export(&origin.initialiser)]);
    for node in nodes {
        let first = node.input.first().map(String::as_str).unwrap_or_default();
        if ["Transpose", "Identity", "Cast", "CastLike"].contains(&node.op_type.as_str()) && names.contains(first) {
            names.extend(node.output.iter().cloned());
        }
    }
    let product = |node: &&NodeProto| {
        let weight = node.input.get(1).is_some_and(|name| names.contains(name));
        ["Gemm", "MatMul"].contains(&node.op_type.as_str()) && weight
    };
    let found: Vec<&NodeProto> = nodes.iter().filter(product).collect();
    match found[..] {
        [node] => Ok((&node.input[0], &node.output[0])),
        _ => Err(Error::graph(format!(
            "layer `{}` is no linear layer that is used once; the linearised posterior of others has no graph",
            layer.name
        ))),
    }
}

/// Derivatives of one number by the values before it.
struct Backward<'a> {
    writer: &'a mut Writer,
    data: BTreeSet<String>,
    gradients: BTreeMap<String, String>,
    count: usize,
}

impl Backward<'_> {
    fn make(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.make_with(operator, inputs, &[])
    }

    fn make_with(&mut self, operator: &str, inputs: &[&str], settings: &[(&str, i64)]) -> String {
        self.count += 1;
        self.writer.node_with(operator, inputs, &format!("fidgp/derivative{}", self.count), settings)
    }

    fn number(&mut self, value: f64) -> String {
        self.count += 1;
        self.writer.number(&format!("fidgp/number{}", self.count), value)
    }

    fn list(&mut self, values: &[i64]) -> String {
        self.count += 1;
        self.writer.whole(&format!("fidgp/list{}", self.count), values)
    }

    /// 1 for the first output, 0 for the others.
    fn seed(&mut self, output: &str, outputs: i64) -> Result<()> {
        let first = Tensor::eye(outputs.max(1), (Kind::Float, Device::Cpu)).f_narrow(0, 0, 1)?;
        let (first, zero) = (self.writer.constant("fidgp/first_output", &first)?, self.number(0.0));
        let zeros = self.make("Mul", &[output, &zero]);
        let seed = self.make("Add", &[&zeros, &first]);
        self.gradients.insert(output.to_owned(), seed);
        Ok(())
    }

    /// Passes what reaches a node's result on to its inputs.
    fn node(&mut self, node: &NodeProto) -> Result<()> {
        let Some(g) = node.output.first().and_then(|name| self.gradients.get(name)).cloned() else { return Ok(()) };
        for (place, input) in node.input.iter().enumerate() {
            if self.data.contains(input) {
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
        let (x, y) = (node.input[place].as_str(), node.output[0].as_str());
        let other = node.input.get(1 - place.min(1)).map_or("", String::as_str);
        Ok(match (node.op_type.as_str(), place) {
            ("Identity" | "Dropout" | "Sub", 0) | ("Add", _) => g.to_owned(),
            ("Sub", _) => self.make("Neg", &[g]),
            ("Mul", _) => self.make("Mul", &[g, other]),
            ("Div", 0) => self.make("Div", &[g, other]),
            ("Flatten" | "Reshape" | "Squeeze" | "Unsqueeze", 0) => {
                let shape = self.make("Shape", &[x]);
                self.make("Reshape", &[g, &shape])
            }
            ("Gemm", 0) if (float(node, "alpha", 1.0) - 1.0).abs() < f64::EPSILON && int(node, "transA") == 0 => {
                self.make_with("Gemm", &[g, other], &[("transB", 1 - int(node, "transB"))])
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

    /// `σ (A_r g)(A_c a)ᵀ` as a row. `[N, R·C]`
    fn jacobian(&mut self, layer: &LinearisedLayer, a: &str, g: &str) -> Result<String> {
        let name = |what: &str| format!("fidgp/{}/{what}", layer.name);
        let [rows, _] = two(&layer.row);
        let [cols, _] = two(&layer.col);
        let row = self.writer.constant(&name("row"), &(layer.row.f_tr()? * layer.scale).f_contiguous()?)?;
        let r = self.make("MatMul", &[g, &row]);
        let inputs = layer.inputs();
        let col = self.writer.constant(&name("col"), &layer.col.f_narrow(1, 0, inputs)?.f_tr()?.f_contiguous()?)?;
        let mut c = self.make("MatMul", &[a, &col]);
        if layer.bias {
            let bias = self.writer.constant(&name("bias"), &layer.col.f_select(1, inputs)?.f_contiguous()?)?;
            c = self.make("Add", &[&c, &bias]);
        }
        let (tall, wide, flat) = (self.list(&[-1, rows, 1]), self.list(&[-1, 1, cols]), self.list(&[-1, rows * cols]));
        let (r, c) = (self.make("Reshape", &[&r, &tall]), self.make("Reshape", &[&c, &wide]));
        let outer = self.make("Mul", &[&r, &c]);
        Ok(self.make("Reshape", &[&outer, &flat]))
    }

    /// `λ²(σ²‖g‖²‖a‖² − ‖J‖²)`, where it is kept.
    fn own(&mut self, layer: &LinearisedLayer, a: &str, g: &str, jacobian: &str) -> Option<String> {
        let noise = layer.conditional?;
        let (signal, mut input) = (self.energy(g), self.energy(a));
        if layer.bias {
            let one = self.number(1.0);
            input = self.make("Add", &[&input, &one]);
        }
        let (product, scale) = (self.make("Mul", &[&signal, &input]), self.number(layer.scale * layer.scale));
        let mut all = self.make("Mul", &[&product, &scale]);
        if noise.exact {
            let explained = self.energy(jacobian);
            all = self.make("Sub", &[&all, &explained]);
        }
        let lambda = self.number(noise.lambda_squared);
        Some(self.make("Mul", &[&all, &lambda]))
    }

    /// `‖·‖²` of every row. `[N, ..]` → `[N]`
    fn energy(&mut self, rows: &str) -> String {
        let (square, axis) = (self.make("Mul", &[rows, rows]), self.list(&[1]));
        self.make_with("ReduceSum", &[&square, &axis], &[("keepdims", 0)])
    }
}

impl LinearisedLayer {
    /// Inputs without the bias.
    fn inputs(&self) -> i64 {
        two(&self.col)[1] - i64::from(self.bias)
    }
}

fn two(matrix: &Tensor) -> [i64; 2] {
    [matrix.size()[0], matrix.size()[1]]
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

fn int(node: &NodeProto, name: &str) -> i64 {
    setting(node, name, AttributeKind::Int).map_or(0, |attribute| attribute.i)
}
