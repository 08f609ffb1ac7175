//! What every value of a graph is for: data, constants, or parameters by the operators that use them.

use std::collections::{BTreeMap, BTreeSet};

use tch::Tensor;

use crate::graph::{Graph, Id, Node};
use crate::names;

/// Places of operators where a network has parameters: the operator, and which of its inputs.
const LEARNT: [(&str, &[usize]); 18] = [
    ("Add", &[0, 1]),
    ("BatchNormalization", &[1, 2]),
    ("Conv", &[1, 2]),
    ("ConvTranspose", &[1, 2]),
    ("Einsum", &[0, 1, 2]),
    ("Expand", &[0]),
    ("GRU", &[1, 2, 3, 5]),
    ("Gather", &[0]),
    ("Gemm", &[0, 1, 2]),
    ("GroupNormalization", &[1, 2]),
    ("InstanceNormalization", &[1, 2]),
    ("LSTM", &[1, 2, 3, 5, 6]),
    ("LayerNormalization", &[1, 2]),
    ("MatMul", &[0, 1]),
    ("Mul", &[0, 1]),
    ("PRelu", &[1]),
    ("RMSNormalization", &[1]),
    ("Tile", &[0]),
];

/// Whether a network may have a parameter at this place of an operator; in a Concat at every one.
fn learns(operator: &str, place: usize) -> bool {
    operator == "Concat" || LEARNT.iter().any(|(known, places)| *known == operator && places.contains(&place))
}

/// Those of them where constants often stand that nobody learns: there only a module's name tells.
const UNSURE: [&str; 6] = ["Add", "Concat", "Expand", "Gather", "Mul", "Tile"];

/// Nodes that say something of a value, not its numbers.
const ABOUT: [&str; 3] = ["ConstantOfShape", "Shape", "Size"];

/// Nodes whose first input alone has the numbers of the result; the others say a type, a shape or places.
const MOVED: [&str; 9] = ["CastLike", "Expand", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Unsqueeze"];

/// Who uses what.
#[derive(Debug)]
pub(crate) struct Roles {
    /// Numbers of nodes and of their inputs, by value.
    uses: BTreeMap<Id, Vec<(usize, usize)>>,
    /// Values whose numbers do not depend on the network's inputs.
    fixed: BTreeSet<Id>,
    /// Those of them that stand, maybe after computations of their own, where networks learn.
    learnt: BTreeSet<Id>,
    /// Those of them that no network has but to learn, whatever they are called.
    surely: BTreeSet<Id>,
    /// Matrices that are initialisers, and whether they were turned.
    roots: BTreeMap<Id, (Id, bool)>,
    /// Zeros that no module has: exporters make them up for biases that are not there.
    zeros: BTreeSet<Id>,
}

impl Roles {
    pub(crate) fn of(graph: &Graph) -> Self {
        let floats = graph.initialisers.iter().filter(|id| graph.constants[id].is_floating_point());
        let mut roles = Self {
            uses: BTreeMap::new(),
            fixed: graph.constants.keys().copied().collect(),
            learnt: BTreeSet::new(),
            surely: BTreeSet::new(),
            roots: floats.map(|id| (*id, (*id, false))).collect(),
            zeros: zeros(graph),
        };
        for (number, node) in graph.nodes.iter().enumerate() {
            for (place, id) in node.inputs.iter().enumerate() {
                if let Some(id) = id {
                    roles.uses.entry(*id).or_default().push((number, place));
                }
            }
            if numbers(node).all(|id| roles.fixed.contains(&id)) {
                roles.fixed.extend(node.outputs.iter().flatten());
            }
            roles.find_root(graph, node);
            if roles.stays_zero(node) {
                roles.zeros.extend(node.outputs.iter().flatten());
            }
        }
        graph.nodes.iter().rev().for_each(|node| roles.find_learnt(node));
        roles
    }

    /// Makes the weights of a file that writes them as Constant nodes, and none as initialisers, into initialisers.
    pub(crate) fn promote(graph: &mut Graph) {
        let matrix = |id: &Id| graph.constants[id].is_floating_point() && graph.constants[id].dim() > 1;
        if graph.initialisers.iter().any(matrix) {
            return;
        }
        let roles = Self::of(graph);
        let weight = |(id, tensor): (&Id, &Tensor)| {
            let matrix = matrix(id) && roles.surely.contains(id);
            let named = roles.learnt.contains(id) && !names::is_made(&graph.names[*id]);
            (matrix || named && tensor.is_floating_point() && tensor.numel() > 1).then_some(*id)
        };
        let found: Vec<Id> = graph.constants.iter().filter_map(weight).collect();
        if found.iter().any(matrix) {
            let norms = graph.nodes.iter().filter(|node| node.operator == "BatchNormalization");
            let statistics = norms.flat_map(|node| node.inputs.iter().skip(1).flatten()).copied();
            let held = statistics.filter(|id| graph.constants.contains_key(id));
            graph.initialisers.extend(held);
            graph.initialisers.extend(found);
        }
    }

    /// Nodes that only turn a matrix, name it anew or change its type.
    fn find_root(&mut self, graph: &Graph, node: &Node) {
        let (Some(Some(from)), Some(Some(to))) = (node.inputs.first(), node.outputs.first()) else { return };
        let Some((root, turned)) = self.roots.get(from).copied().filter(|_| node.domain.is_empty()) else { return };
        match node.operator.as_str() {
            "Identity" | "Cast" | "CastLike" => _ = self.roots.insert(*to, (root, turned)),
            "Transpose" if graph.constants[&root].dim() == 2 && turns(node) => {
                _ = self.roots.insert(*to, (root, !turned));
            }
            _ => {}
        }
    }

    /// Whether a node makes zeros, or only moves them or changes their type.
    fn stays_zero(&self, node: &Node) -> bool {
        if makes_zero(node) {
            return true;
        }
        let moves = MOVED.contains(&node.operator.as_str()) || ["Cast", "Identity"].contains(&node.operator.as_str());
        let padded = node.operator == "Pad" && node.inputs.len() > 2;
        let from = node.inputs.first().copied().flatten();
        moves && !padded && node.domain.is_empty() && from.is_some_and(|id| self.zeros.contains(&id))
    }

    fn find_learnt(&mut self, node: &Node) {
        let own = numbers(node).all(|id| self.fixed.contains(&id));
        let passed_on = own && node.outputs.iter().flatten().any(|id| self.learnt.contains(id));
        let surely = own && Self::moves(node) && node.outputs.iter().flatten().any(|id| self.surely.contains(id));
        let sure = !UNSURE.contains(&node.operator.as_str());
        for (place, id) in node.inputs.iter().enumerate() {
            let id = id.filter(|id| self.fixed.contains(id));
            let learnt = !own && learns(&node.operator, place);
            if passed_on || learnt {
                self.learnt.extend(id);
            }
            if learnt && sure || surely && numbers(node).any(|other| Some(other) == id) {
                self.surely.extend(id);
            }
        }
    }

    /// Whether a node only moves numbers, puts them together or changes their type.
    fn moves(node: &Node) -> bool {
        let operator = node.operator.as_str();
        node.domain.is_empty()
            && (MOVED.contains(&operator) || ["Cast", "Concat", "Identity", "Transpose"].contains(&operator))
    }

    /// Whether something is learnt of a matrix through another node than these, given with the places they have it at.
    pub(crate) fn is_used_beside(&self, graph: &Graph, matrix: Id, known: &BTreeSet<(usize, usize)>) -> bool {
        let values = self.roots.iter().filter(|(_, (root, _))| *root == matrix);
        let mut uses = values.flat_map(|(id, _)| self.uses.get(id).into_iter().flatten());
        uses.any(|one| !known.contains(one) && self.teaches(&graph.nodes[one.0], one.1))
    }

    /// Whether what stands at a place of a node is learnt through it.
    fn teaches(&self, node: &Node, place: usize) -> bool {
        let operator = node.operator.as_str();
        if !numbers(node).all(|id| self.fixed.contains(&id)) {
            return learns(operator, place);
        }
        let turned = |id: &Id| self.roots.contains_key(id); // its uses are looked at on their own
        let carried = !ABOUT.contains(&operator) && (place == 0 || !MOVED.contains(&operator));
        let mut outputs = node.outputs.iter().flatten();
        carried && outputs.any(|id| !turned(id) && self.learnt.contains(id))
    }

    /// The only node that uses a value, with the place among its inputs.
    pub(crate) fn only_use(&self, id: Id) -> Option<(usize, usize)> {
        match self.uses.get(&id).map(Vec::as_slice) {
            Some([one]) => Some(*one),
            _ => None,
        }
    }

    /// The nodes that use a value, with the place among their inputs.
    pub(crate) fn uses(&self, id: Id) -> Vec<(usize, usize)> {
        self.uses.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn is_used(&self, id: Id) -> bool {
        self.uses.contains_key(&id)
    }

    pub(crate) fn is_fixed(&self, id: Id) -> bool {
        self.fixed.contains(&id)
    }

    /// The initialiser behind a value, through nodes that only turn a matrix, name it anew or change its type; and whether
    /// it was turned.
    pub(crate) fn root(&self, id: Id) -> Option<(Id, bool)> {
        self.roots.get(&id).copied()
    }

    /// Whether a value is zero and nobody's parameter.
    pub(crate) fn is_zero(&self, id: Id) -> bool {
        self.zeros.contains(&id)
    }

    /// Whether an initialiser is a parameter: a float that stands, maybe after computations of its own, where networks learn.
    pub(crate) fn is_parameter(&self, graph: &Graph, id: Id) -> bool {
        let (name, tensor) = (&graph.names[id], &graph.constants[&id]);
        let last = name.rsplit('.').next().unwrap_or(name);
        let named = !names::is_made(name) && (tensor.numel() > 1 || name.contains('.'));
        let sure = self.surely.contains(&id) && tensor.numel() > 1 && varies(tensor);
        (named || sure) && tensor.is_floating_point() && !last.contains("mask") && self.learnt.contains(&id)
    }

    /// Whether a constant may be a parameter that a file has no name for.
    pub(crate) fn may_be_parameter(&self, graph: &Graph, id: Id) -> bool {
        let (name, tensor) = (&graph.names[id], &graph.constants[&id]);
        let several = tensor.numel() > 1 && tensor.is_floating_point() && varies(tensor);
        several && names::is_made(name) && self.learnt.contains(&id) && !self.is_parameter(graph, id)
    }
}

/// Whether the numbers of a tensor are not all the same one, as those are that exporters make up, and none is infinite.
fn varies(tensor: &Tensor) -> bool {
    let range = tensor.f_min().and_then(|least| Ok((least.f_double_value(&[])?, tensor.f_max()?.f_double_value(&[])?)));
    range.is_ok_and(|(least, most)| least < most && least.is_finite() && most.is_finite())
}

fn makes_zero(node: &Node) -> bool {
    match node.operator.as_str() {
        "Constant" => node.attributes.float("value_float", 1.0).is_ok_and(|value| value == 0.0),
        "ConstantOfShape" => !node.attributes.has("value"),
        _ => false,
    }
}

/// Constants that are zero and no parameters: what Constant nodes hold, and initialisers with an exporter's name.
fn zeros(graph: &Graph) -> BTreeSet<Id> {
    let made = |id: &Id| !graph.initialisers.contains(id) || names::is_made(&graph.names[*id]);
    let zero = |tensor: &Tensor| {
        tensor.is_floating_point() && tensor.numel() > 0 && tensor.f_any().is_ok_and(|any| any.int64_value(&[]) == 0)
    };
    graph.constants.iter().filter(|(id, tensor)| made(id) && zero(tensor)).map(|(id, _)| *id).collect()
}

/// The inputs whose numbers a node's results have.
fn numbers(node: &Node) -> impl Iterator<Item = Id> {
    let count = if MOVED.contains(&node.operator.as_str()) { 1 } else { usize::MAX };
    node.inputs.iter().take(count).flatten().copied()
}

/// Whether a node says something of a value, not its numbers.
pub(crate) fn is_about(node: &Node) -> bool {
    node.domain.is_empty() && ABOUT.contains(&node.operator.as_str())
}

/// Whether a Transpose exchanges the two axes of a matrix.
fn turns(node: &Node) -> bool {
    node.attributes.ints("perm").is_ok_and(|order| order.is_none_or(|order| order == [1, 0]))
}
