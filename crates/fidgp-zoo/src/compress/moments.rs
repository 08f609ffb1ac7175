//! What goes into a layer and what the loss feels of what comes out, averaged over data.

use std::collections::BTreeMap;

use fidgp::layer::{Conv2dConfig, Mode, Network, Operation, Pass, Taps};
use tch::{Kind, Tensor};

use crate::Result;

/// Second moments of both sides of a layer, in f64.
#[derive(Debug)]
pub struct Sides {
    /// Of its inputs, at all positions, a 1 for the bias behind them: `A`, the mean. `[d_in, d_in]`
    pub input: Tensor,
    /// Of the gradients of its outputs, summed over positions: `G`, the mean over examples. `[d_out, d_out]`
    pub output: Tensor,
}

/// Gathers the moments of every layer of a plain network.
#[derive(Debug, Default)]
pub struct Moments {
    sums: BTreeMap<String, Sides>,
    positions: BTreeMap<String, f64>,
    examples: f64,
    /// Layers that ran more than once in a pass: their moments are of the last time alone.
    repeated: Vec<String>,
}

impl Moments {
    /// Takes up a batch. `signal` gives the gradient of the loss by the outputs, drawn from the network's own prediction.
    ///
    /// # Shapes
    /// `[N, ..]`
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn add(&mut self, network: &dyn Network, x: &Tensor, signal: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let names: Vec<String> = network.slots().iter().map(|slot| slot.name().to_owned()).collect();
        let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        let (pass, gradients, met) = tch::with_grad(|| -> Result<_> {
            let x = x.detach().set_requires_grad(true);
            let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&wanted));
            let outputs = network.forward(&x, &mut pass)?;
            let loss = (&outputs * signal(&outputs.detach())?).f_sum(Kind::Float)?;
            let met: Vec<&str> = wanted.iter().copied().filter(|name| pass.taps.feature(name).is_some()).collect();
            let features: Vec<&Tensor> = met.iter().filter_map(|name| pass.taps.feature(name)).collect();
            let gradients = Tensor::f_run_backward(&[&loss], &features, false, false)?;
            Ok((pass, gradients, met))
        })?;
        self.examples += x.size()[0] as f64;
        tch::no_grad(|| {
            for (name, gradient) in met.into_iter().zip(gradients) {
                let (Some((operation, times)), Some(input)) = (pass.taps.operation(name), pass.taps.input(name)) else {
                    continue;
                };
                if times > 1 && !self.repeated.iter().any(|one| one == name) {
                    self.repeated.push(name.to_owned());
                }
                self.take(name, &columns(input, operation)?, &rows(&gradient, operation)?)?;
            }
            Ok(())
        })
    }

    fn take(&mut self, name: &str, columns: &Tensor, rows: &Tensor) -> Result<()> {
        let moment = |side: &Tensor| Ok::<_, crate::Error>(side.f_matmul(&side.f_tr()?)?.f_to_kind(Kind::Double)?);
        let (input, output) = (moment(columns)?, moment(rows)?);
        *self.positions.entry(name.to_owned()).or_default() += columns.size()[1] as f64;
        match self.sums.get_mut(name) {
            Some(sums) => {
                sums.input += input;
                sums.output += output;
            }
            None => _ = self.sums.insert(name.to_owned(), Sides { input, output }),
        }
        Ok(())
    }

    /// The moments of every layer that was met once in a pass.
    pub fn finish(self) -> BTreeMap<String, Sides> {
        let Self { sums, positions, examples, repeated } = self;
        let own = |(name, sides): (String, Sides)| {
            let sides = Sides { input: sides.input / positions[&name], output: sides.output / examples };
            (name, sides)
        };
        sums.into_iter().filter(|(name, _)| !repeated.contains(name)).map(own).collect()
    }
}

/// What the rows of a layer's weight are multiplied with, a 1 last where there is a bias. `[d_in, positions]`
fn columns(input: &Tensor, operation: Operation) -> Result<Tensor> {
    let (columns, bias) = match operation {
        Operation::Conv(Conv2dConfig { kernel, stride, padding, dilation, groups, bias, .. }) => {
            let [n, channels, height, width] = input.size()[..] else { unreachable!("images have four axes") };
            let apart = input.f_reshape([n * groups, channels / groups, height, width])?;
            (apart.f_im2col(kernel, dilation, padding, stride)?.f_permute([1, 0, 2])?.f_flatten(1, 2)?, bias)
        }
        Operation::Linear { inputs, bias, .. } => (input.f_reshape([-1, inputs])?.f_tr()?, bias),
        _ => unreachable!("layers with a weight are convolutions or linear"),
    };
    if bias { Ok(Tensor::f_cat(&[&columns, &columns.f_narrow(0, 0, 1)?.f_ones_like()?], 0)?) } else { Ok(columns) }
}

/// A layer's signals at every position. `[d_out, positions]`
fn rows(gradient: &Tensor, operation: Operation) -> Result<Tensor> {
    Ok(match operation {
        Operation::Conv(_) => gradient.f_flatten(2, -1)?.f_permute([1, 0, 2])?.f_flatten(1, 2)?,
        _ => gradient.f_reshape([-1, *gradient.size().last().unwrap_or(&1)])?.f_tr()?,
    })
}
