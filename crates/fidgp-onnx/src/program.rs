//! A graph made ready to run: kernels in their order, constants folded, values dropped after their last use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fidgp_files::limits;
use tch::{Device, Kind, Tensor};

use crate::error::{Doing, Error, Place, Result};
use crate::graph::{Graph, Id, Node, Port};
use crate::ops::{self, Context, Inputs, Kernel, Value, placed};

/// Elements of a result that is computed once and kept, and of all such results of a graph.
const MOST_FOLDED: u64 = 1 << 26;
const MOST_FOLDED_TOGETHER: u64 = 1 << 28;

/// A graph made ready to run.
pub(crate) struct Program {
    pub steps: Vec<Step>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    context: Context,
    constants: RefCell<Constants>,
    values: usize,
    /// Elements of one result.
    most: u64,
}

/// Constants where the network computes.
#[derive(Debug)]
struct Constants {
    device: Device,
    values: BTreeMap<Id, Value>,
}

/// One node's work.
pub(crate) struct Step {
    pub place: Place,
    pub work: Work,
    pub inputs: Vec<Option<Id>>,
    pub outputs: Vec<Option<Id>>,
    /// Values nobody needs any more.
    pub last: Vec<Id>,
}

/// What a step does.
pub(crate) enum Work {
    /// An operator.
    Kernel(Kernel),
    /// A layer of the network, by its number.
    Layer(usize),
    /// A recurrent cell of the network, by its number.
    Cell(usize),
}

/// Values on the way, by their ids.
pub(crate) type Values = Vec<Option<Value>>;

/// Runs a layer or a cell of the network.
pub(crate) type RunOwn<'a> = dyn FnMut(&Work, &Inputs) -> Doing<Vec<Value>> + 'a;

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

impl Program {
    /// Makes every node into a kernel, unless a layer stands in its place. Values that are `given` at every run are not folded.
    ///
    /// # Errors
    /// When a node is not understood.
    pub(crate) fn new(graph: &Graph, given: &BTreeSet<Id>, context: Context) -> Result<Self> {
        let constants = graph.constants.iter().filter(|(id, _)| !given.contains(id));
        let ready = |(id, tensor): (&Id, &Tensor)| Ok((*id, Value::Tensor(context.constant(tensor)?)));
        let constants = constants.map(ready).collect::<Doing<_>>();
        let mut values = constants.map_err(|problem| Error::graph(format!("constants: {problem}")))?;
        let (mut steps, mut room) = (Vec::new(), MOST_FOLDED_TOGETHER);
        for node in &graph.nodes {
            steps.extend(step(node, &mut values, &mut room, context)?);
        }
        let mut program = Self {
            steps,
            inputs: graph.inputs.clone(),
            outputs: graph.outputs.clone(),
            context,
            constants: RefCell::new(Constants { device: Device::Cpu, values }),
            values: graph.names.len(),
            most: limits::ELEMENTS.most(),
        };
        program.forget();
        Ok(program)
    }

    /// Notes for every step which values it is the last to use, and drops constants that no step uses.
    fn forget(&mut self) {
        let constants = &mut self.constants.get_mut().values;
        let mut needed: BTreeSet<Id> = self.outputs.iter().map(|port| port.id).collect();
        for step in self.steps.iter_mut().rev() {
            let own: BTreeSet<Id> = step.inputs.iter().chain(&step.outputs).flatten().copied().collect();
            step.last = own.into_iter().filter(|id| needed.insert(*id) && !constants.contains_key(id)).collect();
        }
        constants.retain(|id, _| needed.contains(id));
    }

    /// Outputs for inputs in the order of the graph's, without layers.
    ///
    /// # Errors
    /// When an input does not fit, or a node fails.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut values = self.start()?;
        for (port, tensor) in self.inputs.iter().zip(inputs) {
            values[port.id] = Some(Value::Tensor(self.input(port, tensor)?));
        }
        let device = inputs.first().map_or(Device::Cpu, Tensor::device);
        self.steps(0..self.steps.len(), &mut values, device, &mut |_, _| Err("is a layer without a network".into()))?;
        self.outputs.iter().map(|port| self.output(port, &values)).collect()
    }

    /// No values yet.
    pub(crate) fn start(&self) -> Result<Values> {
        let mut values = Vec::new();
        values.try_reserve_exact(self.values).map_err(|error| Error::graph(error.to_string()))?;
        values.resize_with(self.values, || None);
        Ok(values)
    }

    /// Runs some of the steps.
    pub(crate) fn steps(
        &self,
        which: Range<usize>,
        values: &mut Values,
        device: Device,
        own: &mut RunOwn<'_>,
    ) -> Result<()> {
        self.constants.borrow_mut().place(device).map_err(|problem| Error::graph(problem.to_string()))?;
        let constants = &self.constants.borrow().values;
        for step in &self.steps[which] {
            let find = |id: Id| values[id].as_ref().or_else(|| constants.get(&id));
            let inputs: Vec<_> = step.inputs.iter().map(|id| id.and_then(find)).collect();
            let inputs = Inputs::new(inputs, self.most, device);
            let made = match &step.work {
                Work::Kernel(kernel) => kernel(&inputs),
                work => own(work, &inputs),
            };
            for (id, value) in named(&step.outputs, made.map_err(|problem| step.place.of(problem))?) {
                values[id] = Some(value);
            }
            step.last.iter().for_each(|id| values[*id] = None);
        }
        Ok(())
    }

    /// An output, when all steps have run.
    pub(crate) fn output(&self, port: &Port, values: &Values) -> Result<Tensor> {
        let constants = &self.constants.borrow().values;
        let found = values[port.id].as_ref().or_else(|| constants.get(&port.id)).and_then(|value| value.tensor().ok());
        found.map(Tensor::shallow_clone).ok_or_else(|| Error::graph(format!("the output `{}` is no tensor", port.name)))
    }

    /// An input in the type of the computation, its shape checked.
    pub(crate) fn input(&self, port: &Port, tensor: &Tensor) -> Result<Tensor> {
        port.check(&tensor.size())?;
        let kind = port.element.map_or(tensor.kind(), |element| element.computed_in(self.context.float));
        if tensor.is_floating_point() != matches!(kind, Kind::Half | Kind::BFloat16 | Kind::Float | Kind::Double) {
            let problem = format!("the input `{}` is {:?}, the graph takes {kind:?}", port.name, tensor.kind());
            return Err(Error::graph(problem));
        }
        Ok(tensor.f_to_kind(kind)?)
    }
}

/// The step of a node; none where it only depends on constants, and is one from now on, as long as there is room.
fn step(node: &Node, constants: &mut BTreeMap<Id, Value>, room: &mut u64, context: Context) -> Result<Option<Step>> {
    let step = |work| {
        let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
        Some(Step { place: node.place.clone(), work, inputs, outputs, last: Vec::new() })
    };
    if let Some(work) = node.layer.map(Work::Layer).or_else(|| node.cell.map(Work::Cell)) {
        return Ok(step(work));
    }
    let kernel = ops::kernel(node, context)?;
    if *room == 0 || node.inputs.iter().flatten().any(|id| !constants.contains_key(id)) {
        return Ok(step(Work::Kernel(kernel)));
    }
    let known = node.inputs.iter().map(|id| id.and_then(|id| constants.get(&id)));
    let made = tch::no_grad(|| kernel(&Inputs::new(known.collect(), MOST_FOLDED.min(*room), Device::Cpu)));
    let Ok(made) = made else { return Ok(step(Work::Kernel(kernel))) }; // too large, or wrong: said when it runs
    *room = room.saturating_sub(made.iter().map(Value::elements).sum());
    constants.extend(named(&node.outputs, made));
    Ok(None)
}

impl Constants {
    fn place(&mut self, device: Device) -> Doing<()> {
        if self.device == device {
            return Ok(());
        }
        for value in self.values.values_mut() {
            *value = match value {
                Value::Tensor(tensor) => Value::Tensor(placed(tensor, device)?),
                Value::Sequence(list) => {
                    Value::Sequence(list.iter().map(|one| placed(one, device)).collect::<Doing<_>>()?)
                }
            };
        }
        self.device = device;
        Ok(())
    }
}

impl Port {
    /// Fails unless a tensor has the shape the graph says.
    pub(crate) fn check(&self, size: &[i64]) -> Result<()> {
        let Some(shape) = &self.shape else { return Ok(()) };
        let fits = |(axis, size): (&Option<i64>, &i64)| axis.is_none_or(|axis| axis == *size);
        if shape.len() == size.len() && shape.iter().zip(size).all(fits) {
            return Ok(());
        }
        let batch = shape.len() == size.len() && shape.iter().zip(size).skip(1).all(fits);
        let advice = "; it was exported for one batch size alone: export it with a dynamic batch axis";
        let (takes, advice) = (self.shape_text(), if batch { advice } else { "" });
        Err(Error::graph(format!("the input `{}` has shape {size:?}, the graph takes {takes}{advice}", self.name)))
    }

    /// `[N, 3, 224, 224]`, an axis of any length being a letter.
    pub fn shape_text(&self) -> String {
        let Some(shape) = &self.shape else { return "any shape".to_owned() };
        let mut letters = ["N", "A", "B", "C", "D", "E"].into_iter().cycle();
        let mut letter = || letters.next().unwrap_or("N").to_owned();
        let axes: Vec<_> = shape.iter().map(|axis| axis.map_or_else(&mut letter, |size| size.to_string())).collect();
        format!("[{}]", axes.join(", "))
    }
}

fn named(ids: &[Option<Id>], values: Vec<Value>) -> impl Iterator<Item = (Id, Value)> {
    ids.iter().zip(values).filter_map(|(id, value)| Some(((*id)?, value)))
}
