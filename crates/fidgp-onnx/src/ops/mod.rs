//! ONNX's operators over libtorch. A node is checked and made into a kernel once, then run as often as needed.

mod activation;
mod binary;
mod cast;
mod conv;
mod join;
mod norm;
mod pad;
mod pick;
mod pool;
mod product;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod sequence;
mod shape;
mod table;
mod unary;
mod window;

use fidgp_files::limits;
use tch::{Device, Kind, Tensor};

use crate::error::{Doing, Problem, Result};
use crate::graph::Node;

pub(crate) use cast::placed;
pub(crate) use conv::Transposed;
pub(crate) use recurrent::Recurrent;
pub(crate) use table::names;
pub(crate) use window::{Pads, Window};

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Value {
    Tensor(Tensor),
    Sequence(Vec<Tensor>),
}

impl Value {
    pub(crate) fn tensor(&self) -> Doing<&Tensor> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            Self::Sequence(_) => Err("has a sequence where it takes a tensor".into()),
        }
    }

    /// How many numbers it has.
    pub(crate) fn elements(&self) -> u64 {
        match self {
            Self::Tensor(tensor) => tensor.numel() as u64,
            Self::Sequence(list) => list.iter().map(|one| one.numel() as u64).sum(),
        }
    }
}

/// What a kernel is given.
pub(crate) struct Inputs<'a> {
    values: Vec<Option<&'a Value>>,
    /// How many elements a result may have.
    most: u64,
    /// Where the network computes.
    device: Device,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(values: Vec<Option<&'a Value>>, most: u64, device: Device) -> Self {
        Self { values, most, device }
    }

    fn count(&self) -> usize {
        self.values.len()
    }

    fn value(&self, index: usize) -> Doing<&'a Value> {
        self.values.get(index).copied().flatten().ok_or_else(|| format!("input {index} is missing").into())
    }

    pub(crate) fn tensor(&self, index: usize) -> Doing<&'a Tensor> {
        self.value(index)?.tensor()
    }

    pub(crate) fn optional(&self, index: usize) -> Doing<Option<&'a Tensor>> {
        self.values.get(index).copied().flatten().map(Value::tensor).transpose()
    }

    fn tensors(&self) -> Doing<Vec<&'a Tensor>> {
        (0..self.count()).map(|index| self.tensor(index)).collect()
    }

    /// A small list of whole numbers: a shape, axes.
    fn ints(&self, index: usize) -> Doing<Vec<i64>> {
        ints(self.tensor(index)?)
    }

    fn optional_ints(&self, index: usize) -> Doing<Option<Vec<i64>>> {
        self.optional(index)?.map(ints).transpose()
    }

    /// A single number.
    fn number(&self, index: usize) -> Doing<f64> {
        let tensor = self.tensor(index)?;
        if tensor.numel() != 1 {
            return Err(format!("input {index} has shape {:?}; it must be one number", tensor.size()).into());
        }
        Ok(tensor.f_double_value(&vec![0; tensor.dim()])?)
    }

    /// Fails before a result is made that memory does not hold. An axis of 0 does not excuse the others: what is made on the
    /// way has their lengths.
    pub(crate) fn fits(&self, shape: &[i64]) -> Doing<()> {
        let product = shape.iter().try_fold(1u64, |product, size| product.checked_mul((*size).max(1) as u64));
        if product.is_some_and(|count| count <= self.most) {
            return Ok(());
        }
        let (of, advice) = (limits::ELEMENTS.of, limits::ELEMENTS.advice);
        Err(format!("its result would have shape {shape:?}; the limit is {} {of} ({advice})", self.most).into())
    }
}

fn ints(tensor: &Tensor) -> Doing<Vec<i64>> {
    const MOST: usize = 1 << 16;
    if tensor.numel() > MOST || tensor.dim() > 1 || !matches!(tensor.kind(), Kind::Int64 | Kind::Int) {
        let problem = format!("a list of whole numbers has shape {:?} and type {:?}", tensor.size(), tensor.kind());
        return Err(problem.into());
    }
    Ok(Vec::try_from(tensor.f_to_kind(Kind::Int64)?.f_to_device(Device::Cpu)?.f_reshape([-1])?)?)
}

/// How a node computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The type that stands for f16, bf16 and f32.
    pub float: Kind,
}

/// Runs a node.
pub(crate) type Kernel = Box<dyn Fn(&Inputs) -> Doing<Vec<Value>> + Send>;

/// A node that is made into a kernel.
pub(crate) struct Making<'a> {
    node: &'a Node,
    context: Context,
}

impl Making<'_> {
    fn opset(&self) -> i64 {
        self.node.place.opset
    }

    fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Fails when an output beyond the first few is asked for.
    fn outputs_up_to(&self, most: usize) -> Doing<()> {
        match self.node.outputs.iter().skip(most).flatten().next() {
            Some(_) => Err(format!("its output {most} is used, which is not understood").into()),
            None => Ok(()),
        }
    }
}

/// A kernel with one result.
fn one(run: impl Fn(&Inputs) -> Doing<Tensor> + Send + 'static) -> Kernel {
    Box::new(move |inputs| Ok(vec![Value::Tensor(run(inputs)?)]))
}

/// Makes a node into a kernel.
///
/// # Errors
/// When operator, version, setting or number of inputs is not understood.
pub(crate) fn kernel(node: &Node, context: Context) -> Result<Kernel> {
    let make = || -> Doing<Kernel> {
        let operator = table::find(&node.operator, &node.domain)?;
        operator.check(node)?;
        let kernel = (operator.make)(&Making { node, context })?;
        node.attributes.all_read()?;
        Ok(kernel)
    };
    make().map_err(|problem| node.place.of(problem))
}

/// An axis that may be counted from the end.
fn axis(axis: i64, rank: usize) -> Doing<i64> {
    let rank = rank as i64;
    let from_start = if axis < 0 { axis + rank } else { axis };
    if (0..rank).contains(&from_start) {
        return Ok(from_start);
    }
    Err(format!("axis {axis} is not one of {rank}").into())
}

fn axes(list: &[i64], rank: usize) -> Doing<Vec<i64>> {
    list.iter().map(|one| axis(*one, rank)).collect()
}

/// The shape of two after NumPy's broadcasting.
fn broadcast(one: &[i64], other: &[i64]) -> Doing<Vec<i64>> {
    let rank = one.len().max(other.len());
    let at = |shape: &[i64], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    let pair = |i: usize| match (at(one, i), at(other, i)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(Problem::from(format!("shapes {one:?} and {other:?} do not go together"))),
    };
    (0..rank).map(pair).collect()
}

/// Two tensors on one device: shapes are computed beside the processor, everything else on the network's device.
fn together(one: &Tensor, other: &Tensor) -> Doing<(Tensor, Tensor)> {
    let place = if one.device() == Device::Cpu { other.device() } else { one.device() };
    Ok((one.f_to_device(place)?, other.f_to_device(place)?))
}
