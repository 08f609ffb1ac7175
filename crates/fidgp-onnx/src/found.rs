//! A layer that was found in a graph: what it computes, and how it holds what the file holds.

use tch::Tensor;

use crate::error::Result;
use crate::graph::{Graph, Id};
use crate::ops::{Recurrent, Transposed, Window};

/// A layer.
#[derive(Debug)]
pub(crate) struct Found {
    pub name: String,
    pub shape: Shape,
    /// Its tensors in the order of the layer's kind: weight and bias, or γ, β, mean and variance. As the layer holds them.
    pub tensors: Vec<Option<Tensor>>,
    /// The names of their initialisers.
    pub origins: Vec<Option<String>>,
    /// Their shapes in the framework they come from.
    pub shapes: Vec<Vec<i64>>,
    /// How each is held.
    pub layouts: Vec<Layout>,
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// `x Wᵀ + b`
    Linear { inputs: i64, outputs: i64, bias: bool },
    /// A convolution over one or two axes.
    Conv { weight: Vec<i64>, groups: i64, window: Window, bias: bool },
    /// A transposed convolution over one or two axes, without its bias.
    Transposed { weight: Vec<i64>, geometry: Transposed },
    /// Batch normalisation.
    BatchNorm { features: i64, epsilon: f64, momentum: f64 },
    /// Layer normalisation over the last axis.
    LayerNorm { features: i64, epsilon: f64 },
}

/// An LSTM or a GRU, whose weights are linear layers: for each direction that of the input and that of the state, by number.
#[derive(Debug)]
pub(crate) struct FoundCell {
    pub settings: Recurrent,
    pub layers: Vec<[usize; 2]>,
}

/// How a layer holds a tensor of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layout {
    /// In its order.
    Same,
    /// A matrix with its axes exchanged.
    Turned,
    /// The kernel `[in, out/groups, ..]` of a transposed convolution as the matrices that give every place of a patch,
    /// `[out·places, in/groups, 1, 1]`.
    Patches { groups: i64 },
    /// Its rows in another order: row i is the file's row `order[i]`.
    Rows { order: Vec<i64>, shape: Vec<i64> },
}

impl Layout {
    /// A tensor of the file as the layer holds it.
    pub(crate) fn held(&self, own: &Tensor) -> Result<Tensor> {
        let size = own.size();
        Ok(match self {
            Self::Same => own.shallow_clone(),
            Self::Turned => own.f_transpose(0, 1)?.f_contiguous()?,
            Self::Patches { groups } => {
                let inputs = size[0] / groups;
                let apart = own.f_reshape([*groups, inputs, -1])?.f_transpose(1, 2)?;
                apart.f_reshape([-1, inputs, 1, 1])?
            }
            Self::Rows { order, .. } => {
                own.f_reshape([order.len() as i64, -1])?.f_index_select(0, &Tensor::f_from_slice(order)?)?
            }
        })
    }

    /// The other way, from the shape that the framework knows.
    pub(crate) fn in_file(&self, held: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Same | Self::Patches { .. } => held.shallow_clone(),
            Self::Turned => held.f_transpose(0, 1)?,
            Self::Rows { order, shape } => {
                let place = Tensor::f_from_slice(order)?.f_argsort(0, false)?.f_to_device(held.device())?;
                held.f_index_select(0, &place)?.f_reshape(shape)?
            }
        })
    }

    /// What the layer holds in the shape that the framework knows.
    pub(crate) fn in_framework(&self, held: &Tensor, shape: &[i64]) -> Result<Tensor> {
        Ok(match self {
            Self::Patches { groups } => unpatched(held, *groups, shape)?,
            _ => held.f_reshape(shape)?,
        })
    }
}

/// The kernel of a transposed convolution from the matrices of its patches.
pub(crate) fn unpatched(held: &Tensor, groups: i64, shape: &[i64]) -> Result<Tensor, tch::TchError> {
    held.f_reshape([groups, -1, shape[0] / groups])?.f_transpose(1, 2)?.f_reshape(shape)
}

impl Found {
    /// A layer of initialisers, held as they are.
    pub(crate) fn of<const N: usize>(graph: &Graph, name: String, shape: Shape, ids: [Option<Id>; N]) -> Self {
        let tensor = |id: &Option<Id>| id.map(|id| graph.constants[&id].shallow_clone());
        let origin = |id: &Option<Id>| id.map(|id| graph.names[id].clone());
        Self {
            name,
            shape,
            tensors: ids.iter().map(tensor).collect(),
            origins: ids.iter().map(origin).collect(),
            shapes: ids.iter().map(|id| id.map(|id| graph.constants[&id].size()).unwrap_or_default()).collect(),
            layouts: vec![Layout::Same; N],
        }
    }

    /// Holds a tensor in another way; `shape` is what the framework knows, where that is not the file's.
    pub(crate) fn hold(&mut self, index: usize, layout: Layout, shape: Option<Vec<i64>>) -> Result<()> {
        if let Some(own) = &self.tensors[index] {
            let held = layout.held(own)?;
            self.tensors[index] = Some(shape.as_ref().map_or(Ok(held.shallow_clone()), |shape| held.f_reshape(shape))?);
        }
        if let Some(shape) = shape {
            self.shapes[index] = shape;
        }
        self.layouts[index] = layout;
        Ok(())
    }

    pub(crate) fn is_norm(&self) -> bool {
        matches!(self.shape, Shape::BatchNorm { .. } | Shape::LayerNorm { .. })
    }

    /// A tensor in the shape the layer holds it: one axis of a convolution is two.
    pub(crate) fn shaped(&self, variable: &str, tensor: &Tensor) -> Result<Tensor> {
        match &self.shape {
            Shape::Conv { weight, .. } if variable == "weight" && weight.len() == 3 => Ok(tensor.f_unsqueeze(2)?),
            _ if variable == "weight" && tensor.dim() > 1 => Ok(tensor.shallow_clone()),
            _ => Ok(tensor.f_reshape([-1])?),
        }
    }
}
