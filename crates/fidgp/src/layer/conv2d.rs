//! The two-dimensional convolution.

use tch::Tensor;
use tch::nn::Path;

use super::linear::VARIANCE_FLOOR;
use super::slot::{DenseStart, Slot, SlotConfig};
use super::{Layer, Operation, Pass};
use crate::weight::{Drawn, MeanWeight};
use crate::{Error, Key, Result};

/// The geometry of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dConfig {
    /// Channels in.
    pub in_channels: i64,
    /// Channels out.
    pub out_channels: i64,
    /// Kernel height and width.
    pub kernel: [i64; 2],
    /// Stride.
    pub stride: [i64; 2],
    /// Zero padding on both sides.
    pub padding: [i64; 2],
    /// Dilation.
    pub dilation: [i64; 2],
    /// Groups.
    pub groups: i64,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Conv2dConfig {
    /// A square kernel that keeps the image size at stride 1, without bias.
    pub fn same(in_channels: i64, out_channels: i64, kernel: i64) -> Self {
        Self {
            in_channels,
            out_channels,
            kernel: [kernel; 2],
            stride: [1; 2],
            padding: [kernel / 2; 2],
            dilation: [1; 2],
            groups: 1,
            bias: false,
        }
    }

    /// The same with a stride.
    #[must_use]
    pub fn stride(self, stride: i64) -> Self {
        Self { stride: [stride; 2], ..self }
    }

    /// The same with a dilation, padded to keep the size.
    #[must_use]
    pub fn dilation(self, dilation: i64) -> Self {
        let padding = [self.kernel[0] / 2 * dilation, self.kernel[1] / 2 * dilation];
        Self { dilation: [dilation; 2], padding, ..self }
    }

    /// The same with a bias.
    #[must_use]
    pub fn bias(self) -> Self {
        Self { bias: true, ..self }
    }

    /// Shape of the kernel: `[out, in/groups, kh, kw]`.
    pub fn weight_shape(&self) -> [i64; 4] {
        [self.out_channels, self.in_channels / self.groups, self.kernel[0], self.kernel[1]]
    }

    /// Height and width of the output for an input of the given height and width.
    pub fn output(&self, input: [i64; 2]) -> [i64; 2] {
        [0, 1].map(|i| {
            let reach = self.dilation[i] * (self.kernel[i] - 1) + 1;
            (input[i] + 2 * self.padding[i] - reach) / self.stride[i] + 1
        })
    }

    fn check(&self, name: &str) -> Result<()> {
        let [stride, kernel, dilation] = [self.stride, self.kernel, self.dilation].map(|[h, w]| h.min(w));
        let sizes = [("in_channels", self.in_channels), ("out_channels", self.out_channels)];
        super::at_least(1, name, &sizes)?;
        super::at_least(1, name, &[("kernel", kernel), ("stride", stride), ("dilation", dilation)])?;
        super::at_least(0, name, &[("padding", self.padding[0].min(self.padding[1]))])?;
        let divides = self.groups >= 1 && self.in_channels % self.groups == 0 && self.out_channels % self.groups == 0;
        if divides {
            return Ok(());
        }
        let advice = format!("must divide {} channels in and {} channels out", self.in_channels, self.out_channels);
        Err(Error::setting(format!("{name}: groups"), self.groups, advice))
    }
}

/// A convolution whose kernel is the matrix `[out, in/groups·kh·kw]` of its slot, a bias being one more column.
#[derive(Debug)]
pub struct Conv2d {
    /// The weight.
    pub slot: Slot,
    /// The geometry.
    pub config: Conv2dConfig,
}

impl Conv2d {
    /// A plain layer of this name, without numbers yet.
    ///
    /// # Errors
    /// When the geometry is impossible.
    pub fn new(name: impl Into<String>, config: Conv2dConfig) -> Result<Self> {
        let name = name.into();
        config.check(&name)?;
        Ok(Self { slot: Slot::plan(name, &config.weight_shape(), config.bias, DenseStart::HeFanOut), config })
    }

    /// A layer with its weight under `path`.
    ///
    /// # Errors
    /// When the geometry is impossible or a setting of the slot is out of range.
    pub fn init(path: &Path, config: Conv2dConfig, slot: &SlotConfig, key: Key) -> Result<Self> {
        let mut layer = Self::new(crate::prior::layer_name(path), config)?;
        layer.slot.set(slot.clone())?;
        layer.slot.init(path, key)?;
        Ok(layer)
    }

    /// # Shapes
    /// `[N, in, H, W]` → `[N, out, H', W']`
    ///
    /// # Errors
    /// When the input has other channels or another type, is smaller than the kernel, or was not drawn by the pass.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let name = self.slot.name();
        if x.dim() != 4 || x.size()[1] != self.config.in_channels {
            return Err(Error::shape(
                format!("input of {name}"),
                &x.size(),
                format!("[N, {}, H, W]", self.config.in_channels),
            ));
        }
        if pass.trace.is_some() {
            let [height, width] = self.config.output([x.size()[2], x.size()[3]]);
            let size = [x.size()[0], self.config.out_channels, height, width];
            return Ok(pass.traced(self, x, &size).unwrap_or_default());
        }
        pass.tap_input(self, x);
        let y = match &self.slot {
            Slot::Planned(_) => return Err(self.slot.unmade()),
            Slot::Dense(dense) => self.convolve(x, &dense.weight, dense.bias.as_ref(), pass)?,
            Slot::Custom(weight) => {
                weight.forward(x, pass, &|x, kernel, bias, pass| self.convolve(x, kernel, bias, pass))?
            }
            Slot::Inducing(weight) => match pass.drawn(&weight.name)? {
                Drawn::Weight(w) => self.apply(x, &w, pass)?,
                Drawn::MeanAndScale { mean, scale } => {
                    let mut y = self.apply_mean(x, &mean, pass)?;
                    let noise = pass.noise.of(name, &y)?;
                    let sd = scale * self.patch_energy(x).sqrt();
                    y.addcmul_(&noise, &sd.to_kind(y.kind()))
                }
            },
        };
        pass.tap(name, &y);
        Ok(y)
    }

    /// The layer with a mean weight that is given: factor by factor it is a convolution to C channels, then one of 1×1.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn apply_mean(&self, x: &Tensor, mean: &MeanWeight, pass: &Pass) -> Result<Tensor> {
        match mean {
            MeanWeight::Factors { left, right } if self.config.groups == 1 => {
                let pixels = left.unsqueeze(-1).unsqueeze(-1); // [out, C, 1, 1]
                let inner = self.apply(x, right, pass)?;
                Ok(inner.f_conv2d(&pass.cast(&pixels), None::<&Tensor>, 1, 0, 1, 1)?)
            }
            other => self.apply(x, &other.matrix(), pass),
        }
    }

    /// Convolves with a weight matrix whose last column is the bias, if there is one.
    fn apply(&self, x: &Tensor, w: &Tensor, pass: &Pass) -> Result<Tensor> {
        let columns = w.size()[1] - i64::from(self.config.bias);
        let [_, inputs, height, width] = self.config.weight_shape();
        let kernel = w.narrow(1, 0, columns).reshape([-1, inputs, height, width]);
        let bias = self.config.bias.then(|| w.select(1, columns));
        self.convolve(x, &kernel, bias.as_ref(), pass)
    }

    fn convolve(&self, x: &Tensor, kernel: &Tensor, bias: Option<&Tensor>, pass: &Pass) -> Result<Tensor> {
        let Conv2dConfig { stride, padding, dilation, groups, .. } = &self.config;
        let bias = bias.map(|bias| pass.cast(bias));
        Ok(pass.cast(x).f_conv2d(&pass.cast(kernel), bias.as_ref(), stride, padding, dilation, *groups)?)
    }

    /// `x² * 1 + b`: the squared norm of every output's patch, the bias column's 1 included. `[N, out, H', W']`, or
    /// `[N, 1, H', W']` without groups.
    fn patch_energy(&self, x: &Tensor) -> Tensor {
        let Conv2dConfig { stride, padding, dilation, groups, kernel, out_channels, bias, .. } = self.config;
        let [n, _, h, w] = x.size()[..] else { unreachable!("checked in forward") };
        let energy = x.square().view([n, groups, -1, h, w]).sum_dim_intlist(2, false, x.kind());
        let ones = Tensor::ones([groups, 1, kernel[0], kernel[1]], (x.kind(), x.device()));
        let patches = energy.conv2d(&ones, None::<&Tensor>, stride, padding, dilation, groups);
        let patches = patches + f64::from(u8::from(bias)) + VARIANCE_FLOOR;
        if groups == 1 { patches } else { patches.repeat_interleave_self_int(out_channels / groups, 1, None) }
    }
}

impl Layer for Conv2d {
    fn name(&self) -> &str {
        self.slot.name()
    }

    fn operation(&self) -> Operation {
        Operation::Conv(self.config)
    }

    fn slot(&self) -> Option<&Slot> {
        Some(&self.slot)
    }

    fn slot_mut(&mut self) -> Option<&mut Slot> {
        Some(&mut self.slot)
    }

    fn init(&mut self, path: &Path, key: Key) -> Result<()> {
        self.slot.init(path, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Mode;
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    #[test]
    fn factor_by_factor_is_the_product() {
        let normal = |seed: u64, shape: &[i64]| Key::new(seed).normal(shape, Kind::Double, Device::Cpu);
        let geometries = [
            Conv2dConfig::same(6, 8, 3),
            Conv2dConfig::same(6, 8, 3).stride(2).bias(),
            Conv2dConfig::same(6, 8, 3).dilation(2),
            Conv2dConfig { groups: 2, ..Conv2dConfig::same(6, 8, 3) },
        ];
        for config in geometries {
            let store = VarStore::new(Device::Cpu);
            let conv = Conv2d::init(&store.root(), config, &SlotConfig::Dense, Key::new(1)).unwrap();
            let width = config.weight_shape()[1..].iter().product::<i64>() + i64::from(config.bias);
            let mean = MeanWeight::Factors { left: normal(2, &[8, 3]), right: normal(3, &[3, width]) };
            let (x, pass) = (normal(4, &[2, 6, 7, 7]), Pass::plain(Mode::Eval));
            let gap = conv.apply_mean(&x, &mean, &pass).unwrap() - conv.apply(&x, &mean.matrix(), &pass).unwrap();
            assert!(gap.abs().max().double_value(&[]) < 1e-11, "{config:?}");
        }
    }
}
