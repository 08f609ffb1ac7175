//! Functions of a model put in place of their calls.

use std::collections::BTreeMap;

use fidgp_files::limits;
use prost::Message;

use crate::error::{Error, Place, Result};
use crate::proto::{AttributeProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};

/// Calls within calls.
const DEEPEST: usize = 16;

/// Versions of operators, by domain.
pub(crate) type Opsets = BTreeMap<String, i64>;

/// A node and the version of its operator.
#[derive(Debug)]
pub(crate) struct Versioned {
    pub node: NodeProto,
    pub place: Place,
}

/// All nodes of a graph in their order, without calls.
pub(crate) fn nodes(model: &mut ModelProto, nodes: Vec<NodeProto>) -> Result<Vec<Versioned>> {
    let opsets = opsets(&model.opset_import);
    let functions = std::mem::take(&mut model.functions);
    let mut by_name = BTreeMap::new();
    for function in functions {
        let key = (own(&function.domain), function.name.clone(), function.overload.clone());
        if by_name.contains_key(&key) {
            return Err(Error::graph(format!("the function `{}` is there twice; export it again", function.name)));
        }
        by_name.insert(key, function);
    }
    let mut inliner = Inliner { functions: by_name, found: Vec::new(), calls: 0, bytes: 0 };
    nodes.into_iter().try_for_each(|node| inliner.add(node, &opsets, 0))?;
    Ok(inliner.found)
}

/// Versions by domain.
pub(crate) fn opsets(imports: &[OperatorSetIdProto]) -> Opsets {
    imports.iter().map(|import| (own(&import.domain), import.version)).collect()
}

/// ONNX's own domain has two names.
fn own(domain: &str) -> String {
    if domain == "ai.onnx" { String::new() } else { domain.to_owned() }
}

struct Inliner {
    /// By domain, name and overload.
    functions: BTreeMap<(String, String, String), FunctionProto>,
    found: Vec<Versioned>,
    /// Functions put in place so far: empty ones leave no nodes.
    calls: u64,
    /// Bytes of their nodes: what one holds is there again at each call.
    bytes: u64,
}

impl Inliner {
    fn add(&mut self, node: NodeProto, opsets: &Opsets, depth: usize) -> Result<()> {
        let place = place(&node, opsets)?;
        let too_many = |error: fidgp_files::Exceeded| Error::graph(error.to_string());
        let key = (own(&node.domain), node.op_type.clone(), node.overload.clone());
        limits::NODES.check(self.found.len() as u64 + self.calls + 1).map_err(too_many)?;
        let Some(function) = self.functions.get(&key).cloned() else {
            self.bytes += if depth > 0 { node.encoded_len() as u64 } else { 0 };
            limits::FILE_BYTES.check(self.bytes).map_err(too_many)?;
            self.found.push(Versioned { node, place });
            return Ok(());
        };
        self.calls += 1;
        if depth == DEEPEST {
            return Err(place.error("functions call each other without end; export without functions"));
        }
        let within = opsets_of(&function, opsets);
        let count = self.found.len();
        let body = Call { node: &node, function: &function, number: count }.body();
        body.into_iter().try_for_each(|node| self.add(node, &within, depth + 1))
    }
}

fn opsets_of(function: &FunctionProto, outer: &Opsets) -> Opsets {
    let mut own = outer.clone();
    own.extend(opsets(&function.opset_import));
    own
}

fn place(node: &NodeProto, opsets: &Opsets) -> Result<Place> {
    let domain = own(&node.domain);
    let named = if node.name.is_empty() { node.output.first() } else { Some(&node.name) };
    let name = named.cloned().unwrap_or_default();
    let operator = if domain.is_empty() { node.op_type.clone() } else { format!("{domain}.{}", node.op_type) };
    let place = Place { node: name, operator, opset: opsets.get(&domain).copied().unwrap_or(0) };
    if opsets.contains_key(&domain) {
        return Ok(place);
    }
    Err(place.error("the file does not say which version of this operator it means; export it again"))
}

/// One call of a function.
struct Call<'a> {
    node: &'a NodeProto,
    function: &'a FunctionProto,
    number: usize,
}

impl Call<'_> {
    fn body(&self) -> Vec<NodeProto> {
        self.function.node.iter().map(|node| self.renamed(node)).collect()
    }

    fn renamed(&self, node: &NodeProto) -> NodeProto {
        let outer = if self.node.name.is_empty() { &self.node.op_type } else { &self.node.name };
        NodeProto {
            name: format!("{outer}/{}", node.name),
            input: node.input.iter().map(|name| self.outer_name(name)).collect(),
            output: node.output.iter().map(|name| self.outer_name(name)).collect(),
            attribute: node.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect(),
            ..node.clone()
        }
    }

    /// The caller's name of an input or output, or a name of this call alone.
    fn outer_name(&self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let find = |names: &[String], given: &[String]| {
            let place = names.iter().position(|known| known == name)?;
            Some(given.get(place).cloned().unwrap_or_default())
        };
        find(&self.function.input, &self.node.input)
            .or_else(|| find(&self.function.output, &self.node.output).filter(|name| !name.is_empty()))
            .unwrap_or_else(|| format!("{}#{}/{name}", self.function.name, self.number))
    }

    /// A setting as it is, or the caller's; none where neither caller nor function gives one.
    fn attribute(&self, attribute: &AttributeProto) -> Option<AttributeProto> {
        if attribute.ref_attr_name.is_empty() {
            return Some(attribute.clone());
        }
        let named = |list: &[AttributeProto]| list.iter().find(|one| one.name == attribute.ref_attr_name).cloned();
        let found = named(&self.node.attribute).or_else(|| named(&self.function.attribute_proto))?;
        Some(AttributeProto { name: attribute.name.clone(), ..found })
    }
}
