//! A graph that was checked: every input is made before it is used, every constant has its bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use tch::Tensor;

use crate::attributes::Attributes;
use crate::constant;
use crate::element::Element;
use crate::error::{Error, Place, Result};
use crate::file::{self, External};
use crate::inline::{self, Versioned};
use crate::proto::{GraphProto, Length, ModelProto, NodeProto, TensorProto, ValueInfoProto};

/// Versions of ONNX's operators that are understood.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=28;

/// The first version of the file's own format in which operators have versions.
const OLDEST_FORMAT: i64 = 3;

/// A value of a graph.
pub(crate) type Id = usize;

/// A graph, its functions inlined.
#[derive(Debug)]
pub struct Graph {
    /// The program that wrote it, with its version.
    pub producer: String,
    /// Version of ONNX's operators.
    pub opset: i64,
    /// Free text by name.
    pub metadata: BTreeMap<String, String>,
    /// Inputs that are no constants.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// What is not as it should be but can be used.
    pub warnings: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) nodes: Vec<Node>,
    /// Initialisers and what Constant nodes hold, in their own types on the CPU.
    pub(crate) constants: BTreeMap<Id, Tensor>,
    /// Those that are initialisers.
    pub(crate) initialisers: BTreeSet<Id>,
}

/// An input or output.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The type of its elements, where the file says it.
    pub element: Option<Element>,
    /// Its shape, where the file says it; `None` for an axis of any length.
    pub shape: Option<Vec<Option<i64>>>,
    pub(crate) id: Id,
}

/// One application of an operator.
#[derive(Debug)]
pub(crate) struct Node {
    pub place: Place,
    /// The operator's own name.
    pub operator: String,
    pub domain: String,
    pub attributes: Attributes,
    pub inputs: Vec<Option<Id>>,
    pub outputs: Vec<Option<Id>>,
    /// The module it comes from, where the exporter noted it.
    pub scope: Option<String>,
    /// The layer that stands in its place, by number.
    pub layer: Option<usize>,
    /// The recurrent cell of the network that stands in its place, by number.
    pub cell: Option<usize>,
}

impl Graph {
    /// Reads a file, with the files its tensors lie in.
    ///
    /// # Errors
    /// When it is no ONNX model, or one that contradicts itself.
    pub fn read(path: &Path) -> Result<Self> {
        let model = file::read(path)?;
        Self::of(model, &mut External::beside(path)).map_err(|error| match error {
            Error::Graph(problem) => Error::file(path, problem),
            other => other,
        })
    }

    /// Reads a file that is in memory; its tensors lie in it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let model = file::decode(bytes.to_vec().into()).map_err(Error::graph)?;
        Self::of(model, &mut External::none())
    }

    fn of(mut model: ModelProto, external: &mut External) -> Result<Self> {
        let mut proto = model.graph.take().unwrap_or_default();
        let opset = inline::opsets(&model.opset_import).get("").copied().unwrap_or(0);
        if !OPSETS.contains(&opset) {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            return Err(Error::graph(format!(
                "has opset {opset}; {first} to {last} are understood: export it with opset 20"
            )));
        }
        if !proto.sparse_initializer.is_empty() {
            return Err(Error::graph("has sparse initialisers; export it with dense ones"));
        }
        if model.ir_version < OLDEST_FORMAT {
            let (have, least) = (model.ir_version, OLDEST_FORMAT);
            return Err(Error::graph(format!(
                "has format (IR) version {have}; {least} is the oldest: export it again"
            )));
        }
        let nodes = inline::nodes(&mut model, std::mem::take(&mut proto.node))?;
        let mut builder = Builder { external, ids: HashMap::new(), graph: Self::empty(&model, opset) };
        builder.read(&proto, nodes)?;
        Ok(builder.graph)
    }

    fn empty(model: &ModelProto, opset: i64) -> Self {
        let metadata = model.metadata_props.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        Self {
            producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_owned(),
            opset,
            metadata,
            inputs: Vec::new(),
            outputs: Vec::new(),
            warnings: Vec::new(),
            names: Vec::new(),
            nodes: Vec::new(),
            constants: BTreeMap::new(),
            initialisers: BTreeSet::new(),
        }
    }

    /// Outputs of nodes that nobody uses need not be understood.
    fn drop_unused_outputs(&mut self) {
        let used = self.nodes.iter().flat_map(|node| node.inputs.iter().flatten()).copied();
        let used: BTreeSet<Id> = used.chain(self.outputs.iter().map(|port| port.id)).collect();
        for node in &mut self.nodes {
            let mut later = node.outputs.iter_mut().skip(1);
            later.by_ref().for_each(|output| *output = output.filter(|id| used.contains(id)));
        }
    }

    /// Drops nodes that no output needs.
    pub(crate) fn prune(&mut self) {
        let mut needed: BTreeSet<Id> = self.outputs.iter().map(|port| port.id).collect();
        let mut kept: Vec<Node> = Vec::new();
        for node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.outputs.iter().flatten().any(|id| needed.contains(id)) {
                needed.extend(node.inputs.iter().flatten());
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        self.constants.retain(|id, _| needed.contains(id));
        self.initialisers.retain(|id| needed.contains(id));
        self.inputs.retain(|port| needed.contains(&port.id));
    }
}

struct Builder<'a> {
    external: &'a mut External,
    ids: HashMap<String, Id>,
    graph: Graph,
}

impl Builder<'_> {
    fn read(&mut self, proto: &GraphProto, nodes: Vec<Versioned>) -> Result<()> {
        for message in &proto.initializer {
            let id = self.define(&message.name).map_err(Error::graph)?;
            let named =
                |problem: &dyn std::fmt::Display| Error::graph(format!("initialiser `{}`: {problem}", message.name));
            let tensor = constant::tensor(message, self.external).map_err(|problem| named(&problem))?;
            self.graph.constants.insert(id, tensor);
            self.graph.initialisers.insert(id);
        }
        for input in &proto.input {
            if !self.ids.contains_key(&input.name) {
                let id = self.define(&input.name).map_err(Error::graph)?;
                self.graph.inputs.push(port(input, id)?);
            }
        }
        let made =
            nodes.iter().flat_map(|one| one.node.output.iter().map(|name| (name.clone(), one.place.node.clone())));
        let makers: HashMap<String, String> = made.collect();
        nodes.into_iter().try_for_each(|node| self.node(node, &makers))?;
        for output in &proto.output {
            let nobody = || Error::graph(format!("nothing makes the output `{}`", output.name));
            let id = *self.ids.get(&output.name).ok_or_else(nobody)?;
            self.graph.outputs.push(port(output, id)?);
        }
        if self.graph.outputs.is_empty() {
            return Err(Error::graph("the graph has no outputs"));
        }
        self.graph.drop_unused_outputs();
        Ok(())
    }

    fn define(&mut self, name: &str) -> Result<Id, String> {
        let id = self.graph.names.len();
        if name.is_empty() {
            return Err("a value has no name".to_owned());
        }
        if self.ids.insert(name.to_owned(), id).is_some() {
            return Err(format!("`{name}` is made twice"));
        }
        self.graph.names.push(name.to_owned());
        Ok(id)
    }

    fn node(&mut self, Versioned { node, place }: Versioned, makers: &HashMap<String, String>) -> Result<()> {
        let input = |name: &String| match self.ids.get(name) {
            _ if name.is_empty() => Ok(None),
            Some(id) => Ok(Some(*id)),
            None => Err(place.error(missing(name, makers))),
        };
        let inputs = node.input.iter().map(input).collect::<Result<Vec<_>>>()?;
        if let Some(message) = constant_message(&node) {
            let tensor = constant::tensor(message, self.external).map_err(|problem| place.of(problem))?;
            let id = self.define(&node.output[0]).map_err(|problem| place.error(problem))?;
            self.graph.constants.insert(id, tensor);
            return Ok(());
        }
        let mut output = |name: &String| if name.is_empty() { Ok(None) } else { self.define(name).map(Some) };
        let outputs = node.output.iter().map(&mut output).collect::<Result<Vec<_>, _>>();
        let outputs = outputs.map_err(|problem| place.error(problem))?;
        let (scope, domain) = (scope(&node), place.operator.strip_suffix(&node.op_type).unwrap_or_default().to_owned());
        let attributes = Attributes::new(node.attribute);
        self.graph.nodes.push(Node {
            place,
            operator: node.op_type,
            domain,
            attributes,
            inputs,
            outputs,
            scope,
            layer: None,
            cell: None,
        });
        Ok(())
    }
}

/// Why a value is not there.
fn missing(name: &str, makers: &HashMap<String, String>) -> String {
    match makers.get(name) {
        Some(maker) => {
            format!("its input `{name}` is made by `{maker}`, which comes later: a cycle, or nodes out of order")
        }
        None => format!("nothing makes its input `{name}`: the file is damaged; export it again"),
    }
}

/// The tensor of a node that is a constant.
pub(crate) fn constant_message(node: &NodeProto) -> Option<&TensorProto> {
    let is_constant = node.op_type == "Constant" && node.output.len() == 1 && node.attribute.len() == 1;
    node.attribute.first().filter(|attribute| is_constant && attribute.name == "value")?.t.as_ref()
}

/// The qualified name of the module a node comes from.
fn scope(node: &NodeProto) -> Option<String> {
    let noted = node.metadata_props.iter().find(|entry| entry.key == "pkg.torch.onnx.name_scopes");
    let from_notes = |text: &str| {
        let mut names: Vec<_> = text.split('\'').skip(1).step_by(2).collect();
        names.pop();
        names.last().map(|name| (*name).to_owned())
    };
    noted.and_then(|entry| from_notes(&entry.value)).or_else(|| from_path(&node.name)).filter(|name| !name.is_empty())
}

/// `/layer1/layer1.0/conv1/Conv` → `layer1.0.conv1`: a part that begins with the one before it takes its place.
fn from_path(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = name.strip_prefix('/')?.split('/').collect();
    parts.pop();
    let mut modules: Vec<&str> = Vec::new();
    for part in parts {
        if modules.last().is_some_and(|last| part.strip_prefix(last).is_some_and(|rest| rest.starts_with('.'))) {
            modules.pop();
        }
        modules.push(part);
    }
    Some(modules.join("."))
}

fn port(info: &ValueInfoProto, id: Id) -> Result<Port> {
    let tensor = info.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let named = |problem| Error::graph(format!("`{}`: {problem}", info.name));
    let element = tensor.filter(|tensor| tensor.elem_type != 0).map(|tensor| Element::of(tensor.elem_type)).transpose();
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let axis = |length: &Option<Length>| match length {
        Some(Length::Fixed(size)) if *size > 0 => Some(*size),
        _ => None,
    };
    Ok(Port {
        name: info.name.clone(),
        element: element.map_err(named)?,
        shape: shape.map(|shape| shape.dim.iter().map(|dim| axis(&dim.value)).collect()),
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::from_path;

    #[test]
    fn a_path_of_scopes_is_the_name_of_a_module() {
        let name = |path: &str| from_path(path).unwrap();
        assert_eq!(name("/layer1/layer1.0/conv1/Conv"), "layer1.0.conv1");
        assert_eq!(name("/features/features.0/features.0.0/Conv"), "features.0.0");
        assert_eq!(name("/encoder/layers/encoder_layer_0/mlp/mlp.0/MatMul"), "encoder.layers.encoder_layer_0.mlp.0");
        assert_eq!(from_path("Conv_3"), None);
    }
}
