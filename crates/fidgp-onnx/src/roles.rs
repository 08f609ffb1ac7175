//! What every value of a graph is for: data, constants, or parameters by the operators that use them.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, Id, Node};
use crate::names;

/// Places of operators where a network has parameters: the operator, and which of its inputs.
const LEARNT: [(&str, &[usize]); 19] = [
    ("Add", &[0, 1]),
    ("BatchNormalization", &[1, 2]),
    ("Concat", &[0, 1, 2, 3]),
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
    /// Matrices that are initialisers, and whether they were turned.
    roots: BTreeMap<Id, (Id, bool)>,
}

impl Roles {
    pub(crate) fn of(graph: &Graph) -> Self {
        let floats = graph.initialisers.iter().filter(|id| graph.constants[id].is_floating_point());
        let mut roles = Self {
            uses: BTreeMap::new(),
            fixed: graph.constants.keys().copied().collect(),
            learnt: BTreeSet::new(),
            roots: floats.map(|id| (*id, (*id, false))).collect(),
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
        }
        graph.nodes.iter().rev().for_each(|node| roles.find_learnt(node));
        roles
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

    fn find_learnt(&mut self, node: &Node) {
        let own = numbers(node).all(|id| self.fixed.contains(&id));
        let passed_on = own && node.outputs.iter().flatten().any(|id| self.learnt.contains(id));
        let places =
            LEARNT.iter().find(|(operator, _)| *operator == node.operator).map_or(&[][..], |(_, places)| places);
        for (place, id) in node.inputs.iter().enumerate() {
            if passed_on || !own && places.contains(&place) {
                self.learnt.extend(id.filter(|id| self.fixed.contains(id)));
            }
        }
    }

    /// The only node that uses a value, with the place among its inputs.
    pub(crate) fn only_use(&self, id: Id) -> Option<(usize, usize)> {
        match self.uses.get(&id).map(Vec::as_slice) {
            Some([one]) => Some(*one),
            _ => None,
        }
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

    /// Whether an initialiser is a parameter: a float that stands, maybe after computations of its own, where networks learn.
    pub(crate) fn is_parameter(&self, graph: &Graph, id: Id) -> bool {
        let (name, tensor) = (&graph.names[id], &graph.constants[&id]);
        let last = name.rsplit('.').next().unwrap_or(name);
        let named = !names::is_made(name) && (tensor.numel() > 1 || name.contains('.'));
        named && tensor.is_floating_point() && !last.contains("mask") && self.learnt.contains(&id)
    }
}

/// The inputs whose numbers a node's results have.
fn numbers(node: &Node) -> impl Iterator<Item = Id> {
    let count = if MOVED.contains(&node.operator.as_str()) { 1 } else { usize::MAX };
    node.inputs.iter().take(count).flatten().copied()
}

/// Whether a Transpose exchanges the two axes of a matrix.
fn turns(node: &Node) -> bool {
    node.attributes.ints("perm").is_ok_and(|order| order.is_none_or(|order| order == [1, 0]))
}
