//! What a network is: layers it lists, and a forward pass through them.

use std::fmt::Debug;

use tch::Tensor;
use tch::nn::Path;

use super::{CustomWeight, Operation, Pass, Slot};
use crate::weight::InducingWeight;
use crate::{Error, Key, Result};

/// A layer with parameters.
///
/// It is made in two steps: first a name and sizes, then, by [`init`], numbers in a store. In between a plan can change what
/// its [`Slot`] will hold.
pub trait Layer: Debug + Send {
    /// Its name in the network, `layer2.1.conv1`; behind the path of the network once it has numbers.
    fn name(&self) -> &str;

    /// What it computes, and its sizes.
    fn operation(&self) -> Operation;

    /// What holds its weight matrix, if it has one.
    fn slot(&self) -> Option<&Slot> {
        None
    }

    /// The same, to be changed.
    fn slot_mut(&mut self) -> Option<&mut Slot> {
        None
    }

    /// How far its running statistics go towards those of a batch in training, if it has any.
    fn momentum(&self) -> Option<f64> {
        None
    }

    /// Its running statistics, which are stored and not trained, by their names in it; none before it has numbers.
    fn running(&self) -> Vec<(&'static str, &Tensor)> {
        Vec::new()
    }

    /// Makes its numbers under `path`, which ends in its own name.
    ///
    /// # Errors
    /// When a setting is out of range, or it has numbers already.
    fn init(&mut self, path: &Path, key: Key) -> Result<()>;
}

/// What has layers: a network, a block of one, a list of blocks. Written by [`layers!`](crate::layers).
pub trait Layers {
    /// All layers, in the order of the forward pass.
    fn layers(&self) -> Vec<&dyn Layer>;

    /// The same, to be changed.
    fn layers_mut(&mut self) -> Vec<&mut dyn Layer>;
}

/// Lists the layers of a network or block, once: `layers!(Block: norm, attention, mlp);` names fields that are layers, blocks,
/// or a `Vec`, `Option`, array, pair or `Box` of them, in the order of the forward pass.
///
/// ```
/// use fidgp::layer::{BatchNorm, Linear};
///
/// #[derive(Debug)]
/// struct Block {
///     linear: Linear,
///     norm: Option<BatchNorm>,
/// }
/// fidgp::layers!(Block: linear, norm);
/// ```
#[macro_export]
macro_rules! layers {
    ($owner:ty : $($part:tt),* $(,)?) => {
        impl $crate::layer::Layers for $owner {
            fn layers(&self) -> ::std::vec::Vec<&dyn $crate::layer::Layer> {
                let parts: [::std::vec::Vec<&dyn $crate::layer::Layer>; _] =
                    [$($crate::layer::Layers::layers(&self.$part)),*];
                parts.into_iter().flatten().collect()
            }

            fn layers_mut(&mut self) -> ::std::vec::Vec<&mut dyn $crate::layer::Layer> {
                let parts: [::std::vec::Vec<&mut dyn $crate::layer::Layer>; _] =
                    [$($crate::layer::Layers::layers_mut(&mut self.$part)),*];
                parts.into_iter().flatten().collect()
            }
        }
    };
}

macro_rules! one_layer {
    ($($layer:ty),*) => {$(
        impl Layers for $layer {
            fn layers(&self) -> Vec<&dyn Layer> {
                vec![self]
            }

            fn layers_mut(&mut self) -> Vec<&mut dyn Layer> {
                vec![self]
            }
        }
    )*};
}

one_layer!(super::Linear, super::Conv2d, super::BatchNorm, super::LayerNorm, super::Parameter);

macro_rules! many_layers {
    ($([$($generics:tt)*] $list:ty),*) => {$(
        impl<$($generics)*> Layers for $list {
            fn layers(&self) -> Vec<&dyn Layer> {
                self.iter().flat_map(Layers::layers).collect()
            }

            fn layers_mut(&mut self) -> Vec<&mut dyn Layer> {
                self.iter_mut().flat_map(Layers::layers_mut).collect()
            }
        }
    )*};
}

many_layers!([T: Layers] Vec<T>, [T: Layers] Option<T>, [T: Layers, const N: usize] [T; N]);

impl<A: Layers, B: Layers> Layers for (A, B) {
    fn layers(&self) -> Vec<&dyn Layer> {
        [self.0.layers(), self.1.layers()].into_iter().flatten().collect()
    }

    fn layers_mut(&mut self) -> Vec<&mut dyn Layer> {
        [self.0.layers_mut(), self.1.layers_mut()].into_iter().flatten().collect()
    }
}

impl<T: Layers + ?Sized> Layers for Box<T> {
    fn layers(&self) -> Vec<&dyn Layer> {
        (**self).layers()
    }

    fn layers_mut(&mut self) -> Vec<&mut dyn Layer> {
        (**self).layers_mut()
    }
}

/// A network: layers, and a forward pass of them and of any other operations on tensors.
///
/// A network of one's own needs two things: its layers, listed by [`layers!`](crate::layers), and [`Self::forward`]. It is plain;
/// which of its layers are Bayesian is said of it afterwards (`fidgp_zoo::bayesianise`), and [`init`] gives it numbers. In
/// `forward`
///
/// - hand the pass on to every layer, and keep nothing of it: mode, draws and noise come with it;
/// - wrap blocks in [`Pass::blocks`] (or [`Pass::block`]): those in front of the first random layer are then computed once for
///   all draws of a prediction. It is an offer, not a duty;
/// - run what is of use in training alone, such as an auxiliary head, in [`Pass::in_training`].
///
/// Shapes, multiplications, blocks and heads are read from a forward pass in which layers do no arithmetic ([`trace`](super::trace)).
pub trait Network: Layers + Debug + Send {
    /// Outputs for a batch, with the weights, mode and noise that the pass carries.
    ///
    /// # Errors
    /// When the input does not fit the network.
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor>;

    /// The name of its last layer: the last that is listed with a weight matrix. A network that lists others behind it says so
    /// here.
    fn head(&self) -> Option<&str> {
        self.slots().last().map(|slot| slot.name())
    }

    /// Networks in one: the output has so many blocks of rows, one for each member, in their order.
    fn members(&self) -> i64 {
        1
    }

    /// Whether the forward pass takes a batch without examples, which makes tracing it cheaper still. A `-1` in a reshape does
    /// not.
    fn takes_empty_batches(&self) -> bool {
        false
    }

    /// The slots of all layers that have weights, in the order of the forward pass.
    fn slots(&self) -> Vec<&Slot> {
        self.layers().into_iter().filter_map(Layer::slot).collect()
    }

    /// The weights of the inducing kind among them.
    fn inducing(&self) -> Vec<&InducingWeight> {
        self.slots().into_iter().filter_map(Slot::inducing).collect()
    }

    /// The weights of other methods among them.
    fn custom(&self) -> Vec<&dyn CustomWeight> {
        self.slots().into_iter().filter_map(Slot::custom).collect()
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    fn is_random(&self) -> bool {
        self.slots().into_iter().any(Slot::is_random)
    }
}

impl<T: Network + ?Sized> Network for Box<T> {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        (**self).forward(x, pass)
    }

    fn head(&self) -> Option<&str> {
        (**self).head()
    }

    fn members(&self) -> i64 {
        (**self).members()
    }

    fn takes_empty_batches(&self) -> bool {
        (**self).takes_empty_batches()
    }
}

/// Gives a network its numbers: every layer's parameters under `path`, each from a key of its own name.
///
/// # Errors
/// When two layers have one name, a setting is out of range, or a layer has numbers already.
pub fn init(network: &mut (impl Layers + ?Sized), path: &Path, key: Key) -> Result<()> {
    let mut names = std::collections::HashSet::new();
    for layer in network.layers_mut() {
        let name = layer.name().to_owned();
        layer.init(&name.split('.').fold(path.clone(), |path, part| path.sub(part)), key)?;
        if !names.insert(name.clone()) {
            return Err(Error::setting("layer", name, "is the name of two layers: give each its own"));
        }
    }
    Ok(())
}

/// What is said of a layer that is used before [`init`].
pub(super) fn without_numbers(layer: &str) -> Error {
    Error::setting("layer", layer, "has no numbers yet: give the network its parameters with `init`")
}

/// What is said of a layer that is given numbers twice.
pub(super) fn with_numbers(layer: &str) -> Error {
    Error::setting("layer", layer, "has its numbers already: build the network anew")
}
