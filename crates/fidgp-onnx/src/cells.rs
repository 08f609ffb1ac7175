//! The parts of LSTM and GRU: exporters cut the weights of a framework up and put the pieces together in another order. Where
//! every number of a node's weight comes from is found by moving addresses in place of numbers.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, Tensor};

use crate::found::{Found, Layout, Shape};
use crate::graph::{Graph, Id, Node};
use crate::names;
use crate::ops::{self, Context, Inputs, Recurrent, Value};
use crate::roles::{self, Roles};

/// Numbers in a value, and in all weights.
const MOST: i64 = 1 << 26;
/// Numbers of all values on the way.
const MOST_TOGETHER: u64 = 1 << 28;
/// The length of an axis that the file leaves open, behind the batch.
const OPEN: i64 = 32;

/// A node whose parts can be told apart.
pub(crate) struct Cell {
    pub settings: Recurrent,
    /// For each direction the layer of the input and that of the state.
    pub layers: Vec<[Found; 2]>,
    /// Whether they have the biases.
    pub biased: bool,
}

/// The nodes of a graph whose parts can be told apart: no others have weights that are whole initialisers, which serve nothing else.
pub(crate) fn find(graph: &Graph, roles: &Roles) -> Vec<(usize, Cell)> {
    let recurrent =
        graph.nodes.iter().enumerate().filter(|(_, node)| ["LSTM", "GRU"].contains(&node.operator.as_str()));
    let numbers: Vec<usize> = recurrent.map(|(number, _)| number).collect();
    let weights = numbers.iter().flat_map(|number| graph.nodes[*number].inputs.iter().take(4).skip(1).flatten());
    let wanted: Vec<Id> = weights.copied().collect();
    let Some(addresses) = Addresses::of(graph, &wanted).filter(|_| !numbers.is_empty()) else { return Vec::new() };
    numbers.into_iter().filter_map(|number| Some((number, parts(graph, roles, &addresses, number)?))).collect()
}

fn parts(graph: &Graph, roles: &Roles, addresses: &Addresses, number: usize) -> Option<Cell> {
    let node = &graph.nodes[number];
    if !node.domain.is_empty() || node.inputs.first().copied().flatten().is_none_or(|id| roles.is_fixed(id)) {
        return None;
    }
    let settings = Recurrent::read(node).ok()??;
    node.attributes.all_read().ok()?;
    let input = |place: usize| node.inputs.get(place).copied().flatten();
    let search = Search { graph, roles, number, addresses, settings: &settings };
    let weights = [search.roots(1, input(1)?)?, search.roots(2, input(2)?)?];
    let biases = input(3).and_then(|id| search.roots(3, id));
    let known: BTreeSet<Id> = weights.iter().flatten().map(|(root, _)| *root).collect();
    if known.len() != 2 * settings.directions as usize {
        return None; // one initialiser for several
    }
    let layer = |direction: usize, side: usize| -> Option<Found> {
        let (root, order) = &weights[side][direction];
        let bias = biases.as_ref().map(|found| &found[2 * direction + side]);
        search.layer((*root, order), bias, [direction, side])
    };
    let layers = (0..settings.directions as usize).map(|direction| Some([layer(direction, 0)?, layer(direction, 1)?]));
    Some(Cell { layers: layers.collect::<Option<_>>()?, biased: biases.is_some(), settings: settings.clone() })
}

/// An initialiser, and which of its rows stand where libtorch has its own.
type Root = (Id, Vec<i64>);

struct Search<'a> {
    graph: &'a Graph,
    roles: &'a Roles,
    number: usize,
    addresses: &'a Addresses,
    settings: &'a Recurrent,
}

impl Search<'_> {
    /// The initialisers that one input of the node is made of, a direction's one or two.
    fn roots(&self, place: usize, id: Id) -> Option<Vec<Root>> {
        let addresses = self.addresses.moved.get(&id)?.shallow_clone();
        let (rows, directions) = (self.settings.rows(), self.settings.directions);
        let addresses = if place == 3 { addresses.f_reshape([2 * directions, rows, 1]).ok()? } else { addresses };
        if addresses.dim() != 3 || addresses.size()[1] != rows || place != 3 && addresses.size()[0] != directions {
            return None;
        }
        let order = Tensor::f_from_slice(&self.settings.order()).ok()?;
        let part = |part: i64| self.root(place, &addresses.get(part).f_index_select(0, &order).ok()?);
        let found = (0..addresses.size()[0]).map(part).collect::<Option<Vec<_>>>()?;
        let apart: BTreeSet<Id> = found.iter().map(|(root, _)| *root).collect();
        (apart.len() == found.len()).then_some(found)
    }

    /// The initialiser whose rows a matrix of addresses are, all of them and each once, that serves nothing else.
    fn root(&self, place: usize, addresses: &Tensor) -> Option<Root> {
        let [rows, columns] = <[i64; 2]>::try_from(addresses.size()).ok()?;
        let least = addresses.f_min().ok()?.f_double_value(&[]).ok()? as i64;
        let (start, root) = self.addresses.starts.range(..=least).next_back()?;
        let first = addresses.f_select(1, 0).ok()?;
        let whole = first.f_unsqueeze(1).ok()?.f_add(&Tensor::arange(columns, (Kind::Double, Device::Cpu))).ok()?;
        let order: Vec<f64> = Vec::try_from((first - *start as f64) / columns as f64).ok()?;
        let all: BTreeSet<i64> = order.iter().map(|row| *row as i64).collect();
        let exact = order.iter().all(|row| row.fract() == 0.0) && all.into_iter().eq(0..rows);
        let of_it = self.graph.constants[root].numel() as i64 == rows * columns && *start == least;
        let only = || self.serves_only(*root, place);
        (whole.f_equal(addresses).ok()? && exact && of_it && only())
            .then(|| (*root, order.iter().map(|row| *row as i64).collect()))
    }

    /// Whether an initialiser comes to nothing but one input of the node.
    fn serves_only(&self, root: Id, place: usize) -> bool {
        let (mut next, mut seen) = (vec![root], BTreeSet::new());
        while let Some(id) = next.pop() {
            if self.graph.outputs.iter().any(|port| port.id == id) {
                return false;
            }
            for (number, at) in self.roles.uses(id) {
                let node = &self.graph.nodes[number];
                let fixed = node.outputs.iter().flatten().all(|made| self.roles.is_fixed(*made));
                if !fixed && (number, at) != (self.number, place) {
                    return false;
                }
                if fixed && !roles::is_about(node) {
                    next.extend(node.outputs.iter().flatten().filter(|made| seen.insert(**made)));
                }
            }
        }
        true
    }

    fn layer(&self, (root, order): (Id, &[i64]), bias: Option<&Root>, [direction, side]: [usize; 2]) -> Option<Found> {
        let rows = self.settings.rows();
        let inputs = self.graph.constants[&root].numel() as i64 / rows;
        let shape = Shape::Linear { inputs, outputs: rows, bias: bias.is_some() };
        let name = self.name(root, direction, side);
        let mut layer = Found::of(self.graph, name, shape, [Some(root), bias.map(|(root, _)| *root)]);
        Self::hold(&mut layer, 0, order, vec![rows, inputs])?;
        if let Some((_, order)) = bias {
            Self::hold(&mut layer, 1, order, vec![rows])?;
        }
        Some(layer)
    }

    fn hold(layer: &mut Found, index: usize, order: &[i64], shape: Vec<i64>) -> Option<()> {
        let same = order.iter().copied().eq(0..order.len() as i64) && layer.shapes[index] == shape;
        let own = layer.shapes[index].clone();
        let layout = if same { Layout::Same } else { Layout::Rows { order: order.to_vec(), shape: own } };
        layer.hold(index, layout, Some(shape)).ok()
    }

    /// `rnn.weight_ih_l0` → `rnn.ih_l0`; without such a name that of the module or the node, `.ih` or `.hh` behind it.
    fn name(&self, root: Id, direction: usize, side: usize) -> String {
        let own = &self.graph.names[root];
        let (path, last) = own.rsplit_once('.').map_or(("", own.as_str()), |(path, last)| (path, last));
        if let Some(rest) = last.strip_prefix("weight_").filter(|_| !names::is_made(own)) {
            return if path.is_empty() { rest.to_owned() } else { format!("{path}.{rest}") };
        }
        let node = &self.graph.nodes[self.number];
        let module = node.scope.clone().unwrap_or_else(|| node.place.node.trim_matches('/').replace('/', "."));
        format!("{module}.{}{}", ["ih", "hh"][side], ["", "_reverse"][direction])
    }
}

/// Values computed with addresses in place of the numbers of initialisers.
struct Addresses {
    /// Values that are addresses, each where it is in its initialiser.
    moved: BTreeMap<Id, Tensor>,
    /// The first address of every initialiser.
    starts: BTreeMap<i64, Id>,
}

/// A value on the way.
struct Followed {
    value: Value,
    what: What,
}

/// What a value is made of.
#[derive(Clone, Copy, PartialEq)]
enum What {
    /// Numbers as they are: shapes among them.
    Numbers,
    /// Addresses, moved.
    Addresses,
    /// Something computed with addresses, of which the shape alone is right.
    Other,
}

impl Addresses {
    /// Follows everything that these values depend on. Shapes that depend on the input are those of one example.
    fn of(graph: &Graph, wanted: &[Id]) -> Option<Self> {
        let mut needed: BTreeSet<Id> = wanted.iter().copied().collect();
        for node in graph.nodes.iter().rev() {
            if node.outputs.iter().flatten().any(|id| needed.contains(id)) {
                needed.extend(node.inputs.iter().flatten());
            }
        }
        let (mut known, mut starts) = (BTreeMap::new(), BTreeMap::new());
        for (id, tensor) in graph.constants.iter().filter(|(id, _)| needed.contains(id)) {
            let followed = constant(graph, *id, tensor, &mut starts)?;
            known.insert(*id, followed);
        }
        for port in graph.inputs.iter().filter(|port| needed.contains(&port.id)) {
            let own = |(place, axis): (usize, &Option<i64>)| axis.unwrap_or(if place == 0 { 1 } else { OPEN });
            let shape: Vec<_> = port.shape.as_ref()?.iter().enumerate().map(own).collect();
            let fits = shape.iter().try_fold(1i64, |all, size| all.checked_mul(*size)).is_some_and(|all| all <= MOST);
            let kind = port.element.map_or(Kind::Double, |element| element.computed_in(Kind::Double));
            let zeros = Tensor::f_zeros(fits.then_some(shape)?, (kind, Device::Cpu)).ok()?;
            known.insert(port.id, Followed { value: Value::Tensor(zeros), what: What::Numbers });
        }
        let mut room = MOST_TOGETHER;
        for node in graph.nodes.iter().filter(|node| node.outputs.iter().flatten().any(|id| needed.contains(id))) {
            follow(node, &mut known, &mut room)?;
        }
        let addresses = known.into_iter().filter(|(_, followed)| followed.what == What::Addresses);
        let moved = addresses.filter_map(|(id, followed)| Some((id, followed.value.tensor().ok()?.shallow_clone())));
        Some(Self { moved: moved.collect(), starts })
    }
}

/// The addresses of an initialiser's numbers. What other constants hold is theirs.
fn constant(graph: &Graph, id: Id, tensor: &Tensor, starts: &mut BTreeMap<i64, Id>) -> Option<Followed> {
    if !tensor.is_floating_point() || !graph.initialisers.contains(&id) || tensor.numel() == 0 {
        let value = Context { float: Kind::Double }.constant(tensor).ok()?;
        return Some(Followed { value: Value::Tensor(value), what: What::Numbers });
    }
    let next = starts.last_key_value().map_or(1, |(start, id)| start + graph.constants[id].numel() as i64);
    let end = next.checked_add(tensor.numel() as i64).filter(|end| *end <= MOST)?;
    let own = Tensor::f_arange_start(next, end, (Kind::Double, Device::Cpu)).ok()?.f_reshape(tensor.size()).ok()?;
    starts.insert(next, id);
    Some(Followed { value: Value::Tensor(own), what: What::Addresses })
}

fn follow(node: &Node, known: &mut BTreeMap<Id, Followed>, room: &mut u64) -> Option<()> {
    let moves = node.domain.is_empty() && MOVES.contains(&node.operator.as_str());
    let from = node.inputs.iter().flatten().map(|id| known.get(id).map(|one| one.what));
    let from = from.collect::<Option<Vec<_>>>()?;
    let what = match from {
        _ if roles::is_about(node) => What::Numbers,
        from if from.iter().all(|one| *one == What::Numbers) => What::Numbers,
        from if moves && !from.contains(&What::Other) => What::Addresses,
        _ => What::Other,
    };
    let kernel = ops::kernel(node, Context { float: Kind::Double }).ok()?;
    let inputs = node.inputs.iter().map(|id| id.and_then(|id| Some(&known.get(&id)?.value))).collect();
    let made = tch::no_grad(|| kernel(&Inputs::new(inputs, MOST as u64, Device::Cpu))).ok()?;
    *room = room.checked_sub(made.iter().map(Value::elements).sum())?;
    let own = node.outputs.iter().zip(made).filter_map(|(id, value)| Some(((*id)?, Followed { value, what })));
    known.extend(own);
    Some(())
}

/// Operators that move numbers and do nothing else to them.
const MOVES: [&str; 10] =
    ["Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"];
