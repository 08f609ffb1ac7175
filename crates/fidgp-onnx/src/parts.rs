//! Layers of a graph, found by the roles of its operators.

use std::collections::{BTreeMap, BTreeSet};

use tch::Tensor;

use crate::cells;
use crate::found::{Found, FoundCell, Layout, Shape};
use crate::graph::{Graph, Id, Node};
use crate::head;
use crate::names::{self, Taken};
use crate::ops::{Transposed, Window};
use crate::roles::Roles;

/// What a graph is made of.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub layers: Vec<Found>,
    pub cells: Vec<FoundCell>,
    /// Parameters that are no layer's: by value, with the name of each.
    pub values: Vec<(Id, String)>,
    /// The layer that alone decides the outputs, behind which nothing is learnt, by number.
    pub head: Option<usize>,
    /// What a user should know.
    pub notes: Vec<String>,
    taken: Taken,
}

/// A layer that may stand in the place of a node.
struct Planned {
    /// The node whose operator it is.
    node: usize,
    /// The node it takes the place of: with a bias after a product, the sum.
    place: usize,
    found: Found,
    weight: Id,
    bias: Option<Id>,
}

impl Parts {
    /// Finds the layers of a graph and puts them in place of their nodes.
    pub(crate) fn find(graph: &mut Graph) -> Self {
        Roles::promote(graph);
        let finder = Finder { roles: Roles::of(graph) };
        let planned: Vec<_> = (0..graph.nodes.len()).filter_map(|node| finder.plan(graph, node)).collect();
        let torn = finder.torn(graph, &planned);
        let mut parts = Self::default();
        parts.notes.extend(folded(graph, &planned));
        let mut known = Known::default();
        for one in planned {
            if !torn.contains(&one.weight) {
                parts.put(graph, one, &mut known);
            }
        }
        for weight in torn {
            let why = "is used in several ways, or with several biases: it is one plain parameter here, and no layer";
            parts.notes.push(format!("`{}` {why}", graph.names[weight]));
        }
        parts.put_cells(graph, &finder.roles);
        graph.prune();
        parts.find_values(graph);
        parts.notes.extend(without_layer(graph));
        parts.head = head::find(graph, &parts.values.iter().map(|(id, _)| *id).collect());
        parts
    }

    /// A new layer in the place of a node, or one that is there already because its weight is.
    fn put(&mut self, graph: &mut Graph, planned: Planned, known: &mut Known) {
        let Planned { node, place, mut found, weight, bias } = planned;
        let input = graph.nodes[node].inputs[0];
        let is_norm = found.is_norm();
        let twice = known.weights.get(&weight).copied();
        let layer = if let Some(layer) = twice.filter(|_| !is_norm) {
            self.notes.push(format!("layer `{}` is used more than once", self.layers[layer].name));
            layer
        } else {
            let copies = "each has its own copy here; equal ones are merged by PyTorch's older exporter";
            if twice.is_some() {
                self.notes.push(format!("the parameters of `{}` serve several normalisations: {copies}", found.name));
                found.name = graph.nodes[node].scope.clone().unwrap_or(found.name);
            } else if let Some(bias) = bias.filter(|bias| known.biases.contains(bias)) {
                self.notes.push(format!("`{}` is the bias of several layers: {copies}", graph.names[bias]));
            }
            found.name = self.taken.claim(&found.name);
            self.layers.push(found);
            known.weights.insert(weight, self.layers.len() - 1);
            known.biases.extend(bias);
            self.layers.len() - 1
        };
        let own = &mut graph.nodes[place];
        own.inputs = match self.layers[layer].shape {
            Shape::Transposed { .. } => vec![input, None, own.inputs.get(2).copied().flatten()],
            _ => vec![input],
        };
        own.layer = Some(layer);
    }

    /// The parts of LSTM and GRU, where they can be told apart, as layers.
    fn put_cells(&mut self, graph: &mut Graph, roles: &Roles) {
        for (number, found) in cells::find(graph, roles) {
            let mut layers = Vec::new();
            for pair in found.layers {
                layers.push(pair.map(|mut layer| {
                    layer.name = self.taken.claim(&layer.name);
                    self.layers.push(layer);
                    self.layers.len() - 1
                }));
            }
            let node = &mut graph.nodes[number];
            let unused = |place: usize| place == 1 || place == 2 || place == 3 && found.biased;
            node.inputs.iter_mut().enumerate().filter(|(place, _)| unused(*place)).for_each(|(_, input)| *input = None);
            node.cell = Some(self.cells.len());
            self.cells.push(FoundCell { settings: found.settings, layers });
        }
    }

    /// Parameters that are no layer's.
    fn find_values(&mut self, graph: &Graph) {
        let roles = Roles::of(graph); // nodes have gone
        let needed: BTreeSet<Id> = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
        let mut fixed = Vec::new();
        for id in graph.initialisers.iter().copied().filter(|id| needed.contains(id)) {
            if roles.is_parameter(graph, id) {
                let name = self.taken.claim(&graph.names[id]);
                self.values.push((id, name));
            } else if roles.may_be_parameter(graph, id) {
                fixed.push(graph.names[id].as_str());
            }
        }
        if let [first, ..] = fixed[..] {
            let count = fixed.len();
            let why = "may be weights, but have names that an exporter made up: they are not trained";
            self.notes.push(format!("{count} constants (`{first}`{}) {why}", if count > 1 { ", …" } else { "" }));
        }
    }
}

/// Layers by their weights, and the biases they have.
#[derive(Default)]
struct Known {
    weights: BTreeMap<Id, usize>,
    biases: BTreeSet<Id>,
}

/// What is said of convolutions that look as if a BatchNorm had been merged into them.
fn folded(graph: &Graph, planned: &[Planned]) -> Option<String> {
    if graph.nodes.iter().any(|node| node.operator == "BatchNormalization") {
        return None;
    }
    let made = |name: &str| names::is_made(name) || name.ends_with("weight_bias");
    let convolutions = planned.iter().filter(|one| matches!(one.found.shape, Shape::Conv { .. }));
    let count = convolutions.filter(|one| one.bias.is_some_and(|bias| made(&graph.names[bias]))).count();
    let advice = "to keep it as a layer, export with `dynamo=True, optimize=False`, or the older exporter with \
                  `do_constant_folding=False, training=TrainingMode.PRESERVE`";
    (count > 0).then(|| format!("BatchNorm seems folded into {count} convolutions: {advice}"))
}

/// Operators whose weights are trained, but are no matrix of a layer here.
const NO_LAYER: [&str; 4] = ["ConvTranspose", "Einsum", "GRU", "LSTM"]; // where their parts cannot be told apart

/// What is said of weights that are trained and cannot be Bayesian.
fn without_layer(graph: &Graph) -> Option<String> {
    let roles = Roles::of(graph);
    let own = graph.nodes.iter().filter(|node| node.layer.is_none() && node.cell.is_none() && node.domain.is_empty());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in own {
        let operator = NO_LAYER.into_iter().find(|known| *known == node.operator);
        let given = node.inputs.iter().skip(1).flatten().any(|id| roles.is_fixed(*id));
        operator.filter(|_| given).into_iter().for_each(|operator| *counts.entry(operator).or_default() += 1);
    }
    let listed: Vec<_> = counts.iter().map(|(operator, count)| format!("{count} {operator}")).collect();
    let why = "their weights are trained as plain parameters and cannot be Bayesian";
    (!listed.is_empty()).then(|| format!("{}: {why}", listed.join(", ")))
}

/// A layer's weight and bias.
type Shared = (Id, Option<Id>);

struct Finder {
    roles: Roles,
}

impl Finder {
    /// The layer that may stand in the place of a node.
    fn plan(&self, graph: &Graph, number: usize) -> Option<Planned> {
        let node = &graph.nodes[number];
        if !node.domain.is_empty() || node.inputs.first().copied().flatten().is_none_or(|id| self.roles.is_fixed(id)) {
            return None;
        }
        let mut place = number;
        let (found, (weight, bias)) = match node.operator.as_str() {
            "Gemm" => self.gemm(graph, node),
            "MatMul" => self.matmul(graph, node).map(|(found, shared, sum)| {
                place = sum.unwrap_or(number);
                (found, shared)
            }),
            "Conv" => self.conv(graph, node),
            "ConvTranspose" => self.transposed(graph, node),
            "BatchNormalization" => self.batch_norm(graph, node),
            "LayerNormalization" => self.layer_norm(graph, node),
            _ => None,
        }?;
        Some(Planned { node: number, place, found, weight, bias })
    }

    /// Weights that no single layer holds: they are used in several ways, with several biases, or by other operators too.
    fn torn(&self, graph: &Graph, planned: &[Planned]) -> BTreeSet<Id> {
        let layers = || planned.iter().filter(|one| !one.found.is_norm());
        let places: BTreeSet<_> = layers().map(|one| (one.node, 1)).collect();
        let mut first: BTreeMap<Id, &Planned> = BTreeMap::new();
        let mut torn = BTreeSet::new();
        for one in layers() {
            let same = |other: &Planned| {
                let form = |one: &Planned| (one.found.layouts[0].clone(), one.bias);
                form(other) == form(one) && other.found.shape == one.found.shape
            };
            if !same(first.entry(one.weight).or_insert(one)) {
                torn.insert(one.weight);
            }
        }
        torn.extend(first.keys().filter(|id| self.roles.is_used_beside(graph, **id, &places)));
        torn
    }

    /// A weight's initialiser, the name of its layer, and whether it is turned.
    fn weight(&self, graph: &Graph, node: &Node, place: usize) -> Option<(Id, String, bool)> {
        let (root, turned) = self.roles.root(node.inputs.get(place).copied().flatten()?)?;
        let own = &graph.names[root];
        let name = if names::is_made(own) { node.scope.clone() } else { Some(names::of_weight(own).to_owned()) };
        Some((root, name.unwrap_or_else(|| node.place.node.trim_matches('/').replace('/', ".")), turned))
    }

    /// The initialiser of a bias of so many numbers; `None` inside where there is none or a made-up zero, outside where it is
    /// no constant.
    #[expect(clippy::option_option, reason = "a layer without a bias is not a bias that cannot be used")]
    fn bias(&self, graph: &Graph, node: &Node, place: usize, length: i64) -> Option<Option<Id>> {
        let Some(id) = node.inputs.get(place).copied().flatten() else { return Some(None) };
        if self.roles.is_zero(id) {
            return Some(None);
        }
        let (root, _) = self.roles.root(id)?;
        (graph.constants[&root].numel() as i64 == length).then_some(Some(root))
    }

    fn gemm(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared)> {
        let attributes = &node.attributes;
        let plain = |name| attributes.float(name, 1.0).is_ok_and(|factor| (factor - 1.0).abs() < f64::EPSILON);
        if !plain("alpha") || !plain("beta") || attributes.flag("transA", false).ok()? {
            return None;
        }
        let (root, name, turned) = self.weight(graph, node, 1)?;
        let outputs_first = attributes.flag("transB", false).ok()? != turned;
        attributes.all_read().ok()?;
        let outputs = matrix(&graph.constants[&root], outputs_first)?.size()[0];
        let bias = self.bias(graph, node, 2, outputs)?;
        linear(graph, name, root, outputs_first, bias)
    }

    /// A product with a constant matrix; the sum with a constant after it is its bias.
    fn matmul(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared, Option<usize>)> {
        let (root, name, turned) = self.weight(graph, node, 1)?;
        let outputs = matrix(&graph.constants[&root], turned)?.size()[0];
        let after = self.sum_after(graph, node, outputs);
        let (found, shared) = linear(graph, name, root, turned, after.map(|(_, bias)| bias))?;
        Some((found, shared, after.map(|(sum, _)| sum)))
    }

    /// The node that adds a bias to the result of another, and that bias.
    fn sum_after(&self, graph: &Graph, node: &Node, outputs: i64) -> Option<(usize, Id)> {
        let made = node.outputs.first().copied().flatten()?;
        if graph.outputs.iter().any(|port| port.id == made) {
            return None;
        }
        let (sum, place) = self.roles.only_use(made)?;
        let node = &graph.nodes[sum];
        let other = node.inputs.get(1 - place.min(1)).copied().flatten()?;
        let (bias, _) = self.roles.root(other)?;
        let size = graph.constants[&bias].size();
        (node.operator == "Add" && (size == [outputs] || size == [1, outputs])).then_some((sum, bias))
    }

    fn conv(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared)> {
        let (root, name, _) = self.weight(graph, node, 1)?;
        let weight = &graph.constants[&root];
        let size = weight.size();
        let axes = size.len().checked_sub(2).filter(|axes| (1..=2).contains(axes))?;
        let bias = self.bias(graph, node, 2, size[0])?;
        let window = Window::read(&node.attributes, axes).ok()?;
        let groups = node.attributes.int("group", 1).ok().filter(|groups| *groups >= 1)?;
        let kernel = node.attributes.ints("kernel_shape").ok()?;
        node.attributes.all_read().ok()?;
        if kernel.is_some_and(|kernel| kernel != size[2..]) || size[0] % groups != 0 {
            return None;
        }
        let shape = Shape::Conv { weight: size, groups, window, bias: bias.is_some() };
        Some((Found::of(graph, name, shape, [Some(root), bias]), (root, bias)))
    }

    /// A transposed convolution; its bias, which is no column of what gives the patches, stays a parameter of its own.
    fn transposed(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared)> {
        let (root, name, _) = self.weight(graph, node, 1)?;
        let size = graph.constants[&root].size();
        let axes = size.len().checked_sub(2).filter(|axes| (1..=2).contains(axes))?;
        let geometry = Transposed::read(&node.attributes, axes).ok()?;
        node.attributes.all_read().ok()?;
        if size.iter().any(|size| *size < 1) || size[0] % geometry.groups != 0 {
            return None;
        }
        let groups = geometry.groups;
        let mut layer = Found::of(graph, name, Shape::Transposed { weight: size, geometry }, [Some(root)]);
        layer.hold(0, Layout::Patches { groups }, None).ok()?;
        Some((layer, (root, None)))
    }

    fn batch_norm(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared)> {
        let (root, name, _) = self.weight(graph, node, 1)?;
        let features = graph.constants[&root].numel() as i64;
        let vector = |place| self.bias(graph, node, place, features).flatten();
        let others = [vector(2)?, vector(3)?, vector(4)?];
        if node.outputs.iter().skip(1).flatten().any(|id| self.roles.is_used(*id)) {
            return None;
        }
        let epsilon = node.attributes.float("epsilon", 1e-5).ok()?;
        let momentum = 1.0 - node.attributes.float("momentum", 0.9).ok()?;
        let momentum = if momentum > 0.0 && momentum <= 1.0 { momentum } else { 0.1 };
        node.attributes.ignore("training_mode"); // the pass says whether it trains
        node.attributes.all_read().ok()?;
        let shape = Shape::BatchNorm { features, epsilon, momentum };
        let ids = [Some(root), Some(others[0]), Some(others[1]), Some(others[2])];
        Some((Found::of(graph, name, shape, ids), (root, Some(others[0]))))
    }
}

impl Finder {
    fn layer_norm(&self, graph: &Graph, node: &Node) -> Option<(Found, Shared)> {
        let (root, name, _) = self.weight(graph, node, 1)?;
        let features = graph.constants[&root].numel() as i64;
        let bias = self.bias(graph, node, 2, features)??;
        let epsilon = node.attributes.float("epsilon", 1e-5).ok()?;
        node.attributes.must_be("stash_type", 1).ok()?;
        let last = node.attributes.int("axis", -1).ok()? == -1 && graph.constants[&root].dim() == 1;
        node.attributes.all_read().ok()?;
        if !last || node.outputs.iter().skip(1).flatten().next().is_some() {
            return None;
        }
        let shape = Shape::LayerNorm { features, epsilon };
        Some((Found::of(graph, name, shape, [Some(root), Some(bias)]), (root, Some(bias))))
    }
}

/// A constant as a matrix `[d_out, d_in]`.
fn matrix(tensor: &Tensor, outputs_first: bool) -> Option<Tensor> {
    let [rows, columns] = tensor.size()[..] else { return None };
    if rows < 1 || columns < 1 {
        return None;
    }
    if outputs_first { Some(tensor.shallow_clone()) } else { tensor.f_transpose(0, 1).ok()?.f_contiguous().ok() }
}

fn linear(graph: &Graph, name: String, root: Id, outputs_first: bool, bias: Option<Id>) -> Option<(Found, Shared)> {
    let weight = matrix(&graph.constants[&root], outputs_first)?;
    let shape = Shape::Linear { inputs: weight.size()[1], outputs: weight.size()[0], bias: bias.is_some() };
    let mut layer = Found::of(graph, name, shape, [Some(root), bias]);
    layer.shapes[0] = weight.size();
    layer.tensors[0] = Some(weight);
    layer.layouts[0] = if outputs_first { Layout::Same } else { Layout::Turned };
    Some((layer, (root, bias)))
}
