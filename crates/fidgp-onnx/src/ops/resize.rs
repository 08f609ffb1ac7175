//! Images of another size.

use tch::{Kind, Tensor};

use super::{Inputs, Kernel, Making, axes, one};
use crate::error::Doing;

/// How places of the result are places of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
}

/// Which neighbour is the nearest.
#[derive(Clone, Copy, Debug)]
enum Nearest {
    Floor,
    Ceil,
    PreferFloor,
    PreferCeil,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Nearest(Nearest),
    Linear,
    Cubic,
}

struct Resize {
    mode: Mode,
    coordinates: Coordinates,
    axes: Option<Vec<i64>>,
}

pub(super) fn make(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"];
    let coordinates = match attributes.only("coordinate_transformation_mode", &modes)?.as_str() {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        _ => Coordinates::Asymmetric,
    };
    let nearest = match attributes
        .only("nearest_mode", &["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])?
        .as_str()
    {
        "floor" => Nearest::Floor,
        "ceil" => Nearest::Ceil,
        "round_prefer_floor" => Nearest::PreferFloor,
        _ => Nearest::PreferCeil,
    };
    let mode = match attributes.only("mode", &["nearest", "linear", "cubic"])?.as_str() {
        "nearest" => Mode::Nearest(nearest),
        "linear" => Mode::Linear,
        _ => Mode::Cubic,
    };
    for name in ["antialias", "exclude_outside"] {
        attributes.must_be(name, 0)?;
    }
    attributes.only("keep_aspect_ratio_policy", &["stretch"])?;
    attributes.ignore("extrapolation_value"); // of tf_crop_and_resize alone, which is not understood
    if (attributes.float("cubic_coeff_a", -0.75)? + 0.75).abs() > 1e-6 {
        return Err("attribute `cubic_coeff_a` is not understood; -0.75 is".into());
    }
    let resize = Resize { mode, coordinates, axes: attributes.ints("axes")? };
    Ok(one(move |inputs| resize.apply(inputs)))
}

/// The length of an axis before and after, and its scale where the graph says it.
#[derive(Clone, Copy, Debug)]
struct Along {
    from: i64,
    to: i64,
    scale: Option<f64>,
}

impl Along {
    /// Length of a step in the input.
    fn step(self) -> f64 {
        self.scale.map_or(self.from as f64 / self.to as f64, |scale| 1.0 / scale)
    }
}

impl Resize {
    fn apply(&self, inputs: &Inputs) -> Doing<Tensor> {
        let x = inputs.tensor(0)?;
        let along = self.sizes(inputs, x)?;
        inputs.fits(&along.iter().map(|one| one.to).collect::<Vec<_>>())?;
        let changed: Vec<_> = (0..along.len()).filter(|i| !unchanged(along[*i])).collect();
        match self.mode {
            Mode::Nearest(nearest) => changed.iter().try_fold(x.shallow_clone(), |x, i| {
                let places = self.places(along[*i], |at| round(nearest, at));
                Ok(x.f_index_select(*i as i64, &places.f_to_device(x.device())?)?)
            }),
            Mode::Linear if self.as_libtorch(x, &changed, &along) => self.plane(x, &along, false),
            Mode::Linear => changed.iter().try_fold(x.shallow_clone(), |x, i| self.linear(&x, *i, along[*i])),
            Mode::Cubic if self.as_libtorch(x, &changed, &along) => self.plane(x, &along, true),
            Mode::Cubic => Err("cubic is understood for images [N, C, H, W], half_pixel or align_corners alone".into()),
        }
    }

    fn sizes(&self, inputs: &Inputs, x: &Tensor) -> Doing<Vec<Along>> {
        let size = x.size();
        let which = axes(&self.axes.clone().unwrap_or_else(|| (0..size.len() as i64).collect()), size.len())?;
        let mut along: Vec<_> = size.iter().map(|from| Along { from: *from, to: *from, scale: None }).collect();
        if inputs.optional(3)?.is_some_and(|sizes| sizes.numel() > 0) {
            let given = inputs.ints(3)?;
            same_count(given.len(), which.len())?;
            which.iter().zip(given).for_each(|(axis, to)| along[*axis as usize].to = to);
        } else {
            let scales =
                inputs.optional(2)?.filter(|scales| scales.numel() > 0).ok_or("has neither scales nor sizes")?;
            same_count(scales.numel(), which.len())?;
            let scales = Vec::<f64>::try_from(scales.f_to_kind(Kind::Double)?.f_reshape([-1])?)?;
            for (axis, scale) in which.iter().zip(scales) {
                let one = &mut along[*axis as usize];
                *one = Along { to: (one.from as f64 * scale).floor() as i64, scale: Some(scale), ..*one };
            }
        }
        match along.iter().find(|one| one.to < 1 || one.scale.is_some_and(|scale| !(scale > 0.0 && scale.is_finite())))
        {
            Some(one) => {
                Err(format!("from length {} to {} (scale {:?}) there is no way", one.from, one.to, one.scale).into())
            }
            None => Ok(along),
        }
    }

    /// Whether libtorch's own function for images does this.
    fn as_libtorch(&self, x: &Tensor, changed: &[usize], along: &[Along]) -> bool {
        let half = self.coordinates == Coordinates::HalfPixel
            || self.coordinates == Coordinates::PytorchHalfPixel && along.iter().all(|one| one.to > 1);
        x.dim() == 4 && changed.iter().all(|axis| *axis >= 2) && (half || self.coordinates == Coordinates::AlignCorners)
    }

    fn plane(&self, x: &Tensor, along: &[Along], cubic: bool) -> Doing<Tensor> {
        let corners = self.coordinates == Coordinates::AlignCorners;
        let [h, w] = [along[2], along[3]];
        Ok(if cubic {
            x.f_upsample_bicubic2d([h.to, w.to], corners, h.scale, w.scale)?
        } else {
            x.f_upsample_bilinear2d([h.to, w.to], corners, h.scale, w.scale)?
        })
    }

    /// Between the two neighbours along one axis.
    fn linear(&self, x: &Tensor, axis: usize, along: Along) -> Doing<Tensor> {
        let last = (along.from - 1) as f64;
        let at: Vec<f64> = (0..along.to).map(|i| self.origin(along, i as f64).clamp(0.0, last)).collect();
        let share: Vec<f64> = at.iter().map(|at| at - at.floor()).collect();
        let lower = self.places(along, f64::floor).f_to_device(x.device())?;
        let upper = self.places(along, |at| at.max(0.0).floor() + 1.0).f_to_device(x.device())?;
        let mut shape = vec![1; x.dim()];
        shape[axis] = along.to;
        let share = Tensor::f_from_slice(&share)?.f_to_kind(x.kind())?.f_to_device(x.device())?.f_reshape(shape)?;
        let (low, high) = (x.f_index_select(axis as i64, &lower)?, x.f_index_select(axis as i64, &upper)?);
        Ok(low.f_add(&high.f_sub(&low)?.f_mul(&share)?)?)
    }

    /// The place in the input of one in the result.
    fn origin(&self, along: Along, to: f64) -> f64 {
        match self.coordinates {
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if along.to == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (to + 0.5) * along.step() - 0.5,
            Coordinates::AlignCorners => to * (along.from - 1) as f64 / (along.to - 1) as f64,
            Coordinates::Asymmetric if along.scale.is_none() => to * along.from as f64 / along.to as f64,
            Coordinates::Asymmetric => to * along.step(),
        }
    }

    fn places(&self, along: Along, round: impl Fn(f64) -> f64) -> Tensor {
        let place = |i: i64| (round(self.origin(along, i as f64)) as i64).clamp(0, along.from - 1);
        Tensor::from_slice(&(0..along.to).map(place).collect::<Vec<_>>())
    }
}

fn unchanged(along: Along) -> bool {
    along.from == along.to && along.scale.is_none_or(|scale| (scale - 1.0).abs() < f64::EPSILON)
}

fn same_count(given: usize, axes: usize) -> Doing<()> {
    if given == axes { Ok(()) } else { Err(format!("{given} sizes for {axes} axes").into()) }
}

fn round(nearest: Nearest, at: f64) -> f64 {
    match nearest {
        Nearest::Floor => at.floor(),
        Nearest::Ceil => at.ceil(),
        Nearest::PreferFloor => (at - 0.5).ceil(),
        Nearest::PreferCeil => (at + 0.5).floor(),
    }
}
