//! The last layer: the one that alone decides the outputs, behind which nothing is learnt.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, Id, Node};
use crate::roles;

/// What the numbers of a value come from.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// One layer, with nothing learnt after it.
    Layer(usize),
    /// The network's input, several layers, or a parameter that is no layer's.
    Mixed,
}

/// The layer through which alone the input comes to the output, and behind which nothing is learnt.
pub(crate) fn find(graph: &Graph, learnt: &BTreeSet<Id>) -> Option<usize> {
    let inputs = graph.inputs.iter().map(|port| port.id);
    let mut sources: BTreeMap<Id, Source> =
        inputs.chain(learnt.iter().copied()).map(|id| (id, Source::Mixed)).collect();
    for node in &graph.nodes {
        if let Some(source) = source(node, &sources) {
            sources.extend(node.outputs.iter().flatten().map(|id| (*id, source)));
        }
    }
    match sources.get(&graph.outputs.first()?.id) {
        Some(Source::Layer(layer)) => Some(*layer),
        _ => None,
    }
}

/// What a node's results come from; none where it only computes with constants, or says a shape.
fn source(node: &Node, sources: &BTreeMap<Id, Source>) -> Option<Source> {
    if let Some(layer) = node.layer {
        return Some(Source::Layer(layer));
    }
    if node.cell.is_some() {
        return Some(Source::Mixed);
    }
    let known = node.inputs.iter().flatten().filter_map(|id| sources.get(id)).copied();
    let merged = known.reduce(|one, other| if one == other { one } else { Source::Mixed });
    merged.filter(|_| !roles::is_about(node))
}
