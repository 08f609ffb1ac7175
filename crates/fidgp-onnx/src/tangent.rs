//! A graph beside its own derivatives: the law that a linearised posterior gives its outputs.
//!
//! Of a linear layer with inputs a and signals g, what reaches it from an output ([`Backward`]), `J = σ (A_r g)(A_c a)ᵀ`. The
//! covariance of outputs k and k' is `⟨Rᵀ vec J_k, Rᵀ vec J_k'⟩` with `Σ = R Rᵀ`, over all layers. Of features, J is the mean of
//! `A_c a` over the positions of a layer, made as long as 1, and stands for every output; or distances of it from the classes are
//! measured.

use std::collections::BTreeSet;

use tch::Tensor;

use crate::backward::{self, Backward};
use crate::error::{Error, Result};
use crate::import::Import;
use crate::names;
use crate::proto::NodeProto;
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
    /// Outputs of the network; of numbers the first is the mean.
    pub outputs: i64,
    /// Whether the layers' features are read out, by every output alike; else the outputs' derivatives are.
    pub features: bool,
    /// Of features: what distances are measured from, in R's coordinates; the variance is then the square of the distance,
    /// averaged over the classes by the network's probabilities. `[classes, D]`
    pub centres: Option<Tensor>,
    /// Of classes: standard normals, from which logits are drawn. `[draws, classes]`
    pub normals: Option<Tensor>,
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
    /// Of a convolution, its weight's shape behind the outputs: `[in/groups, kh, kw]`.
    pub kernel: Vec<i64>,
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

/// What a law says of the outputs, by name.
pub(crate) enum Stated {
    /// One variance: of the first output, or of each of them. `[N]`
    Variance(String),
    /// In f64; whether rounding may have left directions with a negative variance. `[N, K, K]`
    Covariance(String, bool),
}

/// Writes what the law says of an output of the graph.
pub(crate) fn write(
    writer: &mut Writer,
    import: &Import,
    law: &Linearised,
    (x, output): (&str, &str),
) -> Result<Stated> {
    let nodes = writer.graph.node.clone();
    let products = law.layers.iter().map(|layer| product(&nodes, import, layer)).collect::<Result<Vec<_>>>()?;
    let made: Vec<&str> = products.iter().map(|node| node.output[0].as_str()).collect();
    let outputs = if law.normals.is_some() && !law.features { law.outputs } else { 1 };
    let mut law_of = Law { backward: Backward::new(writer, x, &made, outputs) };
    if law.features {
        return law_of.features(law, &products, output);
    }
    law_of.backward.seed(output, law.outputs)?;
    for node in nodes.iter().rev() {
        law_of.backward.node(node)?;
    }
    law_of.derivatives(law, &products)
}

/// The product with a layer's weight.
fn product<'a>(nodes: &'a [NodeProto], import: &Import, layer: &LinearisedLayer) -> Result<&'a NodeProto> {
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
        ["Conv", "Gemm", "MatMul"].contains(&node.op_type.as_str()) && weight
    };
    let found: Vec<&NodeProto> = nodes.iter().filter(product).collect();
    match found[..] {
        [node] => Ok(node),
        _ => Err(Error::graph(format!(
            "layer `{}` is no linear layer or convolution that is used once; the linearised posterior of others has no graph",
            layer.name
        ))),
    }
}

/// The nodes of a law.
struct Law<'a> {
    backward: Backward<'a>,
}

impl Law<'_> {
    fn derivatives(mut self, law: &Linearised, products: &[&NodeProto]) -> Result<Stated> {
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        for (layer, node) in law.layers.iter().zip(products) {
            if node.op_type == "Conv" {
                let why = "is a convolution, by whose weights a graph has no derivatives: name the linear layers in posterior.layers, \
                           or fit posterior.directions = \"features\"";
                return Err(Error::graph(format!("layer `{}` {why}", layer.name)));
            }
            let (input, signal) = (node.input[0].as_str(), self.backward.gradients.get(&node.output[0]).cloned());
            let signal =
                signal.ok_or_else(|| Error::graph(format!("nothing of layer `{}` reaches the output", layer.name)))?;
            let jacobian = self.jacobian(layer, input, &signal)?;
            own.extend(self.own(layer, input, &signal, &jacobian));
            parts.push(jacobian);
        }
        let turned = self.turned(&parts, &law.root)?;
        let explained = self.gram(&turned, law.root.size()[0]);
        let all = own.iter().fold(explained, |sum, one| self.backward.make("Add", &[&sum, one]));
        Ok(if self.backward.outputs > 1 { Stated::Covariance(all, !own.is_empty()) } else { Stated::Variance(all) })
    }

    /// `Rᵀ vec J` of every row.
    fn turned(&mut self, parts: &[String], root: &Tensor) -> Result<String> {
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let writer = &mut *self.backward.writer;
        let all = writer.node_with("Concat", &names, "fidgp/jacobian", &[("axis", 1)]);
        let root = writer.constant("fidgp/root", root)?;
        Ok(writer.node("MatMul", &[&all, &root], "fidgp/turned"))
    }

    /// `A_c a` of a linear layer. `[.., C]`
    fn columns(&mut self, layer: &LinearisedLayer, a: &str) -> Result<String> {
        let (name, inputs) = (|what: &str| format!("fidgp/{}/{what}", layer.name), layer.inputs());
        let own = layer.col.f_narrow(1, 0, inputs)?.f_tr()?.f_contiguous()?;
        let col = self.backward.writer.constant(&name("col"), &own)?;
        let c = self.backward.make("MatMul", &[a, &col]);
        if !layer.bias {
            return Ok(c);
        }
        let own = layer.col.f_select(1, inputs)?.f_contiguous()?;
        let bias = self.backward.writer.constant(&name("bias"), &own)?;
        Ok(self.backward.make("Add", &[&c, &bias]))
    }

    /// `σ (A_r g)(A_c a)ᵀ` as a row. `[N·K, R·C]`
    fn jacobian(&mut self, layer: &LinearisedLayer, a: &str, g: &str) -> Result<String> {
        let ([rows, _], [cols, _]) = (two(&layer.row), two(&layer.col));
        let own = (layer.row.f_tr()? * layer.scale).f_contiguous()?;
        let row = self.backward.writer.constant(&format!("fidgp/{}/row", layer.name), &own)?;
        let r = self.backward.make("MatMul", &[g, &row]);
        let c = self.columns(layer, a)?;
        let (c, backward) = (self.backward.each_of(&c), &mut self.backward);
        let (tall, wide, flat) =
            (backward.list(&[-1, rows, 1]), backward.list(&[-1, 1, cols]), backward.list(&[-1, rows * cols]));
        let (r, c) = (backward.make("Reshape", &[&r, &tall]), backward.make("Reshape", &[&c, &wide]));
        let outer = backward.make("Mul", &[&r, &c]);
        Ok(backward.make("Reshape", &[&outer, &flat]))
    }

    /// `λ²(σ²⟨g, g'⟩‖a‖² − ⟨J, J'⟩)`, where it is kept.
    fn own(&mut self, layer: &LinearisedLayer, a: &str, g: &str, jacobian: &str) -> Option<String> {
        let noise = layer.conditional?;
        let [signal, mut input] = [self.gram(g, two(&layer.row)[1]), self.energy(a)];
        let backward = &mut self.backward;
        if layer.bias {
            let one = backward.number(1.0);
            input = backward.make("Add", &[&input, &one]);
        }
        if backward.outputs > 1 {
            let cube = backward.list(&[-1, 1, 1]);
            input = backward.make("Reshape", &[&input, &cube]);
            input = backward.wide(&input);
        }
        let (product, scale) = (backward.make("Mul", &[&signal, &input]), backward.number(layer.scale * layer.scale));
        let scale = if backward.outputs > 1 { backward.wide(&scale) } else { scale };
        let mut all = backward.make("Mul", &[&product, &scale]);
        if noise.exact {
            let explained = self.gram(jacobian, two(&layer.row)[0] * two(&layer.col)[0]);
            all = self.backward.make("Sub", &[&all, &explained]);
        }
        let lambda = self.backward.number(noise.lambda_squared);
        let lambda = if self.backward.outputs > 1 { self.backward.wide(&lambda) } else { lambda };
        Some(self.backward.make("Mul", &[&all, &lambda]))
    }

    /// Products of the rows of every example: `[N·K, width]` → `[N, K, K]`, or `[N]` of one output. Of several in f64, so that rounding
    /// leaves no direction with a negative variance, which a root would follow.
    fn gram(&mut self, rows: &str, width: i64) -> String {
        let backward = &mut self.backward;
        if backward.outputs == 1 {
            return self.energy(rows);
        }
        let shape = backward.list(&[-1, backward.outputs, width]);
        let apart = backward.make("Reshape", &[rows, &shape]);
        let apart = backward.wide(&apart);
        let turned = backward.turned(&apart);
        backward.make("MatMul", &[&apart, &turned])
    }

    /// `‖·‖²` of every row. `[N, ..]` → `[N]`
    fn energy(&mut self, rows: &str) -> String {
        let (square, axis) = (self.backward.make("Mul", &[rows, rows]), self.backward.list(&[1]));
        self.backward.make_with("ReduceSum", &[&square, &axis], &[("keepdims", 0)])
    }

    /// The variance of outputs that read out all layers' features.
    fn features(mut self, law: &Linearised, products: &[&NodeProto], output: &str) -> Result<Stated> {
        let mut parts = Vec::new();
        for (layer, node) in law.layers.iter().zip(products) {
            let pooled = if node.op_type == "Conv" {
                self.pooled(layer, node)?
            } else {
                let columns = self.columns(layer, &node.input[0])?;
                let shape = self.backward.list(&[0, -1, two(&layer.col)[0]]);
                let apart = self.backward.make("Reshape", &[&columns, &shape]);
                self.sum(&apart, &[1])
            };
            let (length, least) = (self.energy(&pooled), self.backward.number(f64::from(f32::MIN_POSITIVE)));
            let backward = &mut self.backward;
            let length = backward.make("Max", &[&length, &least]);
            let (length, axis) = (backward.make("Sqrt", &[&length]), backward.list(&[1]));
            let length = backward.make("Unsqueeze", &[&length, &axis]);
            parts.push(backward.make("Div", &[&pooled, &length]));
        }
        let turned = self.turned(&parts, &law.root)?;
        let Some(centres) = &law.centres else { return Ok(Stated::Variance(self.energy(&turned))) };
        let distance = self.distance(&turned, output, centres)?;
        Ok(Stated::Variance(self.backward.make("Mul", &[&distance, &distance])))
    }

    /// `Σ_k p_k ‖y − m_k‖² = ‖y − Σ p_k m_k‖² + Σ p_k m_k² − ‖Σ p_k m_k‖²`; all less the mean of the centres first, since f32 has
    /// few digits. `[N]`
    fn distance(&mut self, turned: &str, output: &str, centres: &Tensor) -> Result<String> {
        let writer = &mut *self.backward.writer;
        let mean = centres.f_mean_dim(0, true, centres.kind())?;
        let centred = centres.f_sub(&mean)?;
        let middle = writer.constant("fidgp/middle", &mean)?;
        let away = self.backward.make("Sub", &[turned, &middle]);
        if centres.size()[0] == 1 {
            return Ok(self.energy(&away));
        }
        let shares = self.backward.make_with("Softmax", &[output], &[("axis", -1)]);
        let writer = &mut *self.backward.writer;
        let squares = centred.f_square()?.f_sum_dim_intlist(1, true, centred.kind())?;
        let squares = writer.constant("fidgp/squares", &squares)?;
        let centres = writer.constant("fidgp/centres", &centred)?;
        let expected = self.backward.make("MatMul", &[&shares, &centres]);
        let away = self.backward.make("Sub", &[&away, &expected]);
        let squares = self.backward.make("MatMul", &[&shares, &squares]);
        let (squares, taken) = (self.sum(&squares, &[1]), self.energy(&expected));
        let spread = self.backward.make("Sub", &[&squares, &taken]);
        let none = self.backward.number(0.0);
        let spread = self.backward.make("Max", &[&spread, &none]);
        let to_mean = self.energy(&away);
        Ok(self.backward.make("Add", &[&to_mean, &spread]))
    }

    /// The mean of `A_c a` over the positions of a convolution, of every group. `[N, C]`
    fn pooled(&mut self, layer: &LinearisedLayer, node: &NodeProto) -> Result<String> {
        let [cols, _] = two(&layer.col);
        let kernel = &layer.kernel;
        if backward::int(node, "group", 1) > 1 {
            return Err(Error::graph(format!(
                "layer `{}` is a convolution in groups, whose features have no graph: leave it out of posterior.layers",
                layer.name
            )));
        }
        let inputs = layer.inputs();
        let weight = layer.col.f_narrow(1, 0, inputs)?.f_reshape([&[cols], &kernel[..]].concat())?.f_contiguous()?;
        let weight = self.backward.writer.constant(&format!("fidgp/{}/col", layer.name), &weight)?;
        let mut words = vec![node.input[0].clone(), weight];
        if layer.bias {
            let bias = layer.col.f_select(1, inputs)?.f_contiguous()?;
            words.push(self.backward.writer.constant(&format!("fidgp/{}/bias", layer.name), &bias)?);
        }
        let names: Vec<&str> = words.iter().map(String::as_str).collect();
        let made = self.backward.make("Conv", &names);
        if let Some(own) = self.backward.writer.graph.node.last_mut() {
            own.attribute.clone_from(&node.attribute);
        }
        let axes: Vec<i64> = (2..=kernel.len() as i64).collect();
        Ok(self.sum(&made, &axes))
    }

    /// A sum over axes, which go. The mean would differ by a factor, which a length of 1 takes away.
    fn sum(&mut self, values: &str, axes: &[i64]) -> String {
        let axes = self.backward.list(axes);
        self.backward.make_with("ReduceSum", &[values, &axes], &[("keepdims", 0)])
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
