//! What is said of a file: inputs and outputs, operators, layers, and what is not understood.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use fidgp::layer::{LayerGeometry, Layers, trace};
use fidgp_files::{limits, shown};
use tch::Kind;

use crate::error::{Error, Result};
use crate::graph::{Graph, Port};
use crate::import::{Import, Wanted, pick};
use crate::ops::{self, Context};

/// What a file holds.
#[derive(Debug)]
pub struct Inspection {
    head: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    operators: BTreeMap<String, usize>,
    /// Nodes that are not understood, with the way out.
    pub problems: Vec<String>,
    layers: Result<Vec<LayerGeometry>, String>,
    notes: Vec<String>,
    metadata: BTreeMap<String, String>,
}

impl Inspection {
    /// Looks at a graph as a network for inputs of a shape, which is the file's own where none is given.
    ///
    /// # Shapes
    /// `shape`: without the batch
    pub fn new(mut graph: Graph, wanted: &Wanted, shape: Option<&[i64]>) -> Self {
        let mut operators = BTreeMap::new();
        for node in &graph.nodes {
            *operators.entry(node.place.operator.clone()).or_default() += 1;
        }
        let (inputs, outputs) = (graph.inputs.iter().map(line).collect(), graph.outputs.iter().map(line).collect());
        let context = Context { float: Kind::Float };
        // what only other outputs need, need not be understood
        if let Ok(port) = pick("output", &graph.outputs, wanted.output.as_deref()) {
            graph.outputs = vec![port];
            graph.prune();
        }
        let failed = graph.nodes.iter().filter_map(|node| ops::kernel(node, context).err());
        let mut inspection = Self {
            head: format!("ONNX, opset {}, written by {}", graph.opset, shown(&graph.producer)),
            inputs,
            outputs,
            operators,
            problems: failed.map(|error| error.to_string()).collect(),
            layers: Ok(Vec::new()),
            notes: Vec::new(),
            metadata: graph.metadata.clone(),
        };
        match inspection.network(graph, wanted, shape) {
            Ok(layers) => inspection.layers = Ok(layers),
            Err(error) => inspection.layers = Err(error.to_string()),
        }
        inspection
    }

    /// Whether the graph can be a network here: every node is understood, input and output are clear, and its layers fit each
    /// other.
    pub fn is_understood(&self) -> bool {
        self.problems.is_empty() && self.layers.is_ok()
    }

    fn network(&mut self, graph: Graph, wanted: &Wanted, shape: Option<&[i64]>) -> Result<Vec<LayerGeometry>> {
        let import = Import::new(graph, wanted)?;
        self.notes = import.notes;
        let network = import.network;
        let shape = shape.map_or_else(|| own_shape(network.input()), |shape| Ok(shape.to_vec()))?;
        let sizes: Vec<_> = shape.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect();
        let too_large = |error| Error::graph(format!("an input of shape {shape:?}: {error}"));
        limits::ELEMENTS.check_product(&sizes).map_err(too_large)?;
        debug_assert!(network.layers().iter().all(|layer| !layer.name().is_empty()), "layers have names");
        Ok(trace(&network, &shape)?)
    }
}

/// The shape without its batch, when the file says all of it.
fn own_shape(port: &Port) -> Result<Vec<i64>> {
    let known = port.shape.as_ref().and_then(|shape| shape.iter().skip(1).copied().collect::<Option<Vec<_>>>());
    known.ok_or_else(|| {
        let text = format!(
            "the input `{}` is {}: say its shape with --shape, such as 3x224x224",
            port.name,
            port.shape_text()
        );
        Error::graph(text)
    })
}

fn line(port: &Port) -> String {
    let element = port.element.map_or("any type", |element| element.name());
    format!("{} {} {}", shown(&port.name), element, port.shape_text())
}

impl Display for Inspection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        writeln!(f, "inputs   {}\noutputs  {}", self.inputs.join("; "), self.outputs.join("; "))?;
        let count = |(name, count): (&String, &usize)| format!("{} {count}", shown(name));
        writeln!(f, "operators  {}", self.operators.iter().map(count).collect::<Vec<_>>().join(", "))?;
        for (key, value) in &self.metadata {
            writeln!(f, "{}: {}", shown(key), shown(value).chars().take(200).collect::<String>())?;
        }
        match &self.layers {
            Ok(layers) => table(f, layers)?,
            Err(_) if !self.problems.is_empty() => {}
            Err(why) => writeln!(f, "\nlayers: {why}")?,
        }
        if !self.problems.is_empty() {
            writeln!(f, "\nnot understood:")?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "  {problem}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {}", shown(note)))
    }
}

fn table(f: &mut Formatter<'_>, layers: &[LayerGeometry]) -> fmt::Result {
    let width = layers.iter().map(|layer| layer.name.chars().count()).max().unwrap_or(0).max(5);
    writeln!(
        f,
        "\n{:<width$}  {:<28}  {:>9}  {:>11}  {:>14}  can be",
        "layer", "what", "output", "parameters", "MACs"
    )?;
    for layer in layers {
        let [height, columns] = layer.output;
        let (what, output) = (layer.operation.to_string(), format!("{height}x{columns}"));
        let can = if layer.kind().is_some() { "Bayesian" } else { "" };
        let (parameters, macs) = (layer.dense_parameters(), layer.macs());
        let text =
            format!("{:<width$}  {what:<28}  {output:>9}  {parameters:>11}  {macs:>14}  {can}", shown(&layer.name));
        writeln!(f, "{}", text.trim_end())?;
    }
    let sum = |of: fn(&LayerGeometry) -> i64| layers.iter().map(of).fold(0, i64::saturating_add);
    let (parameters, macs) = (sum(LayerGeometry::dense_parameters), sum(LayerGeometry::macs));
    writeln!(f, "{:<width$}  {:<28}  {:>9}  {parameters:>11}  {macs:>14}", "all", "", "")
}

/// The operators that are understood.
pub fn operators() -> impl Iterator<Item = &'static str> {
    ops::names()
}
