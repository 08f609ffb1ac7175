//! A forward pass in which layers do no arithmetic: what they are, what they are given, and where they stand.

use tch::{Kind, Tensor};

use super::{Layer, LayerKind, Mode, Network, Operation, Pass};
use crate::Result;

/// One layer as a forward pass met it.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "four facts about a layer that do not exclude each other")]
pub struct LayerGeometry {
    /// Its path: `layer2.1.conv1`.
    pub name: String,
    /// What it computes.
    pub operation: Operation,
    /// Height and width of its output; 1×1 for vectors, and the number of tokens for sequences. Zero where it was not met.
    pub output: [i64; 2],
    /// How often it was met.
    pub uses: i64,
    /// Whether it is the network's last layer.
    pub is_head: bool,
    /// Whether it runs in training alone.
    pub training_only: bool,
    /// Whether two passes with other noise give other outputs of it in evaluation.
    pub is_random: bool,
    /// Whether it stands in a block.
    pub in_block: bool,
    /// Blocks that were finished before it was met.
    pub blocks_before: usize,
}

impl LayerGeometry {
    /// The kind a plan can name; none for layers without a weight matrix.
    pub fn kind(&self) -> Option<LayerKind> {
        self.operation.kind()
    }

    /// `(d_out, d_in)` of the weight matrix, a bias counted as one more column; none without one.
    pub fn weight(&self) -> Option<(i64, i64)> {
        self.operation.weight()
    }

    /// Output positions that use the same weight.
    pub fn positions(&self) -> i64 {
        self.output[0] * self.output[1] * self.uses
    }

    /// Trainable numbers of the plain layer.
    pub fn dense_parameters(&self) -> i64 {
        self.operation.parameters()
    }

    /// Numbers that are stored but not trained: running mean and variance.
    pub fn buffers(&self) -> i64 {
        self.operation.buffers()
    }

    /// Multiply-accumulates of one image with a given weight; bias and normalisation are not counted.
    pub fn macs(&self) -> i64 {
        self.operation.macs() * self.positions()
    }
}

/// The layers of a network for one input of the given shape, without the batch: `[3, 32, 32]` for an image, `[8]` for features.
/// They come in the order in which a forward pass in training meets them; those that it does not meet stand at the end.
///
/// No weight is needed, and none is read: a network can be traced before it has numbers.
///
/// # Errors
/// When the input does not fit the network.
pub fn trace(network: &dyn Network, input: &[i64]) -> Result<Vec<LayerGeometry>> {
    Ok(trace_to_output(network, input)?.0)
}

/// The same, with the shape of the output, the batch included.
///
/// # Errors
/// As [`trace`].
pub fn trace_to_output(network: &dyn Network, input: &[i64]) -> Result<(Vec<LayerGeometry>, Vec<i64>)> {
    let batch = i64::from(!network.takes_empty_batches());
    let x = Tensor::f_zeros([&[batch], input].concat(), (Kind::Float, tch::Device::Cpu))?;
    traced(network, &x, Mode::Train)
}

/// The same for a batch, whose first example is enough, and a mode.
///
/// # Errors
/// When the batch does not fit the network.
pub fn trace_on(network: &dyn Network, x: &Tensor, mode: Mode) -> Result<Vec<LayerGeometry>> {
    Ok(traced(network, x, mode)?.0)
}

fn traced(network: &dyn Network, x: &Tensor, mode: Mode) -> Result<(Vec<LayerGeometry>, Vec<i64>)> {
    let x = x.f_narrow(0, 0, i64::from(!network.takes_empty_batches()).min(x.size()[0]))?;
    let mut pass = Pass::plain(mode);
    pass.trace = Some(Vec::new());
    let output = tch::no_grad(|| network.forward(&x, &mut pass))?.size();
    let mut met = pass.trace.take().unwrap_or_default();
    for layer in network.layers() {
        if !met.iter().any(|seen| seen.name == layer.name()) {
            met.push(LayerGeometry { uses: 0, ..pass.geometry(layer, [0, 0]) });
        }
    }
    for layer in &mut met {
        layer.is_head = network.head() == Some(&layer.name);
    }
    Ok((met, output))
}

/// How many blocks stand before the first random layer of a traced network: no draw touches them. None where nothing is random,
/// as there are no draws then.
pub fn blocks_before_randomness<'a>(layers: impl IntoIterator<Item = &'a LayerGeometry>) -> usize {
    let mut random = layers.into_iter().filter(|layer| layer.is_random).peekable();
    if random.peek().is_none() {
        return 0;
    }
    random.find(|layer| layer.uses > 0 && !layer.training_only).map_or(usize::MAX, |layer| layer.blocks_before)
}

impl Pass {
    /// For a layer's forward pass: in a trace, records it and gives zeros in the shape of its output; else nothing.
    ///
    /// # Shapes
    /// output: that of the layer's output, the batch included
    pub fn traced(&mut self, layer: &dyn Layer, x: &Tensor, output: &[i64]) -> Option<Tensor> {
        self.trace.as_ref()?;
        let image = match (layer.operation(), output) {
            (Operation::Conv(_) | Operation::BatchNorm { .. }, [_, _, sizes @ ..])
            | (Operation::Linear { .. } | Operation::LayerNorm { .. }, [_, sizes @ .., _]) => {
                [sizes.first().copied().unwrap_or(1), sizes.iter().skip(1).product()]
            }
            _ => [1, 1],
        };
        let met = self.geometry(layer, image);
        let trace = self.trace.as_mut()?;
        match trace.iter_mut().find(|seen| seen.name == met.name) {
            Some(seen) => seen.uses += 1,
            None => trace.push(met),
        }
        Some(Tensor::zeros(output, (x.kind(), x.device())))
    }

    fn geometry(&self, layer: &dyn Layer, output: [i64; 2]) -> LayerGeometry {
        LayerGeometry {
            name: layer.name().to_owned(),
            operation: layer.operation(),
            output,
            uses: 1,
            is_head: false,
            training_only: self.blocks.is_aside(),
            is_random: layer.slot().is_some_and(super::Slot::is_random),
            in_block: self.blocks.is_inside(),
            blocks_before: self.blocks.finished(),
        }
    }
}
