//! A graph made into a network: input and output picked, a trailing softmax left out, the head replaced.

use tch::{Kind, Tensor};

use crate::error::{Error, Result};
use crate::found::{Layout, Shape};
use crate::graph::{Graph, Id, Port};
use crate::names;
use crate::network::GraphNetwork;
use crate::parts::Parts;

/// A variable of the network and its numbers.
type Named = (String, Tensor);

/// What is wanted of a graph.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The input, by name, where there are several.
    pub input: Option<String>,
    /// The output, by name, where there are several.
    pub output: Option<String>,
    /// Outputs of the last layer; those of the file where it is not said.
    pub outputs: Option<i64>,
    /// Whether the outputs are to be logits: then a sigmoid at the end is left out too.
    pub logits: bool,
}

/// A network with what the file says of it.
#[derive(Debug)]
pub struct Import {
    /// The network, without numbers yet.
    pub network: GraphNetwork,
    /// The file's numbers by the names of the network's variables. Those of a head that was replaced are not among them.
    pub tensors: Vec<Named>,
    /// Where the variables come from in the file, those of a replaced head too.
    pub origins: Vec<Origin>,
    /// What a user should know.
    pub notes: Vec<String>,
    /// The value of the file that the network gives.
    pub(crate) logits: String,
    /// Free text of the file, by name.
    pub metadata: std::collections::BTreeMap<String, String>,
}

/// A tensor of the file that is a variable of the network.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The network's name of it.
    pub variable: String,
    /// The file's.
    pub initialiser: String,
    /// The shape that the framework it comes from knows, `[d_out, d_in]` for a linear layer; with the outputs that are wanted.
    pub shape: Vec<i64>,
    pub(crate) layout: Layout,
}

impl Origin {
    /// The name in the framework it comes from: the file's, unless an exporter made that up.
    pub fn framework_name(&self) -> &str {
        let own = self.variable.strip_suffix(".value").unwrap_or(&self.variable);
        if names::is_made(&self.initialiser) { own } else { &self.initialiser }
    }

    /// A value of the variable as the framework it comes from holds it.
    ///
    /// # Errors
    /// When it has another number of elements.
    pub fn in_framework(&self, value: &Tensor) -> Result<Tensor> {
        self.layout.in_framework(value, &self.shape)
    }

    /// A value of the variable as the file holds it.
    pub(crate) fn in_file(&self, value: &Tensor) -> Result<Tensor> {
        self.layout.in_file(&self.in_framework(value)?)
    }
}

impl Import {
    /// Makes a graph into a network.
    ///
    /// # Errors
    /// When input or output are not clear, or a node is not understood.
    pub fn new(mut graph: Graph, wanted: &Wanted) -> Result<Self> {
        Self::in_kind(&mut graph, wanted, Kind::Float)
    }

    /// The same in another type than f32, for comparisons.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn in_kind(graph: &mut Graph, wanted: &Wanted, float: Kind) -> Result<Self> {
        let mut notes = std::mem::take(&mut graph.warnings);
        graph.outputs = vec![pick("output", &graph.outputs, wanted.output.as_deref())?];
        graph.prune();
        notes.extend(graph.drop_squashing(wanted.logits));
        let input = pick("input", &graph.inputs, wanted.input.as_deref())?;
        if let Some(other) = graph.inputs.iter().find(|port| port.id != input.id) {
            let why = format!("the output also depends on the input `{}`; networks here have one input", other.name);
            return Err(Error::graph(why));
        }
        graph.inputs = vec![input];
        if float != Kind::Double {
            graph.refuse_double()?;
        }
        let mut parts = Parts::find(graph);
        if let Some(outputs) = wanted.outputs {
            notes.extend(parts.set_outputs(outputs));
        }
        let network = GraphNetwork::new(graph, &mut parts, float)?;
        notes.append(&mut parts.notes);
        let (tensors, origins) = parts.named(graph, float)?;
        let logits = graph.names[graph.outputs[0].id].clone();
        Ok(Self { network, tensors, origins, notes, logits, metadata: graph.metadata.clone() })
    }
}

/// The one that is meant, by name or because it is the only one.
pub(crate) fn pick(what: &str, ports: &[Port], name: Option<&str>) -> Result<Port> {
    let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
    let all = names.join(", ");
    match (ports, name) {
        ([], _) => Err(Error::graph(format!("the network has no {what} that depends on anything"))),
        ([one], None) => Ok(one.clone()),
        (_, None) => Err(Error::graph(format!(
            "the network has several {what}s: {all}; say which with `network.{what}` (`--{what}` of `fidgp onnx inspect`)"
        ))),
        (_, Some(name)) => {
            let found = ports.iter().find(|port| port.name == name).cloned();
            found
                .ok_or_else(|| Error::graph(format!("`network.{what}` = `{name}` is not there; the network has {all}")))
        }
    }
}

impl Graph {
    /// Fails where weights are in f64, in which layers do not compute.
    fn refuse_double(&self) -> Result<()> {
        let double = |id: &&Id| self.constants[id].kind() == Kind::Double && self.constants[id].dim() > 1;
        match self.initialisers.iter().find(double) {
            Some(id) => {
                let name = &self.names[*id];
                Err(Error::graph(format!("`{name}` is in f64; networks here compute in f32: export it in f32")))
            }
            None => Ok(()),
        }
    }

    /// Takes what stands before a softmax at the end, and before a sigmoid where the outputs are to be logits: likelihoods take
    /// logits. A network for numbers may have a sigmoid there, and keeps it.
    fn drop_squashing(&mut self, logits: bool) -> Option<String> {
        let mut output = self.outputs.first()?.id;
        let node = loop {
            let node = self.nodes.iter().find(|node| node.outputs.first() == Some(&Some(output)))?;
            if node.operator != "Identity" || !node.domain.is_empty() {
                break node;
            }
            output = node.inputs.first().copied().flatten()?;
        };
        let (operator, name) = (node.operator.clone(), node.place.node.clone());
        match operator.as_str() {
            "Softmax" if node.domain.is_empty() && matches!(node.attributes.int("axis", 1).ok()?, 1 | -1) => {}
            "Sigmoid" if node.domain.is_empty() && logits => {}
            "Sigmoid" => return Some(format!("the Sigmoid at the end (`{name}`) stays: for classes it is left out")),
            _ => return None,
        }
        let before = node.inputs.first().copied().flatten()?;
        self.outputs[0] = Port { id: before, ..self.outputs[0].clone() };
        self.prune();
        Some(format!("the {operator} at the end (`{name}`) is left out: the network gives logits"))
    }
}

impl Parts {
    /// Gives the last layer another number of outputs, and none of the file's numbers. Where there is no such layer the outputs
    /// stay as many as they are: who wants others finds out when the network is traced.
    fn set_outputs(&mut self, wanted: i64) -> Option<String> {
        let kept = "its outputs stay those of the file: no single layer decides them that could have others";
        let Some(head) = self.head.map(|head| &mut self.layers[head]) else { return Some(kept.to_owned()) };
        let had = match &mut head.shape {
            Shape::Linear { outputs, .. } => std::mem::replace(outputs, wanted),
            Shape::Conv { weight, groups: 1, .. } => std::mem::replace(&mut weight[0], wanted),
            _ => return Some(kept.to_owned()),
        };
        if had == wanted {
            return None;
        }
        head.tensors.iter_mut().for_each(|tensor| *tensor = None);
        for (part, shape) in head.shapes.iter_mut().enumerate() {
            let size = if part == 0 { shape.first_mut() } else { shape.last_mut() }; // a bias may be a row
            size.filter(|size| **size == had).into_iter().for_each(|size| *size = wanted);
        }
        Some(format!("the head `{}` has {wanted} outputs here, {had} in the file: it starts afresh", head.name))
    }

    /// The file's numbers by the names of the network's variables, and where they come from.
    fn named(&self, graph: &Graph, float: Kind) -> Result<(Vec<Named>, Vec<Origin>)> {
        const OF_NORM: [&str; 4] = ["weight", "bias", "running_mean", "running_var"];
        let (mut tensors, mut origins) = (Vec::new(), Vec::new());
        for layer in &self.layers {
            for (index, part) in OF_NORM.into_iter().enumerate().take(layer.origins.len()) {
                let Some(initialiser) = &layer.origins[index] else { continue };
                let variable = format!("{}.{part}", layer.name);
                origins.push(Origin {
                    variable: variable.clone(),
                    initialiser: initialiser.clone(),
                    shape: layer.shapes[index].clone(),
                    layout: layer.layouts[index].clone(),
                });
                if let Some(tensor) = &layer.tensors[index] {
                    tensors.push((variable, layer.shaped(part, tensor)?.f_to_kind(float)?));
                }
            }
        }
        for (id, name) in &self.values {
            let (variable, tensor) = (format!("{name}.value"), &graph.constants[id]);
            let initialiser = graph.names[*id].clone();
            let (shape, layout) = (tensor.size(), Layout::Same);
            origins.push(Origin { variable: variable.clone(), initialiser, shape, layout });
            tensors.push((variable, tensor.f_to_kind(float)?));
        }
        Ok((tensors, origins))
    }
}
