//! A segmentation as a picture: what is seen, what it is taken for, and how sure the network is, side by side.

use fidgp::objective::VOID;
use fidgp::predict::Segmented;
use fidgp_data::Picture;
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};

/// Pixels between two panels.
const GAP: i64 = 4;
/// The epistemic scale ends here at the least, nats: below it there is only rounding to see.
const LEAST_SCALE: f64 = 1e-4;
/// Colours of doubt, none to most.
const HEAT: [[f32; 3]; 5] =
    [[4.0, 4.0, 20.0], [70.0, 20.0, 110.0], [180.0, 50.0, 100.0], [245.0, 140.0, 40.0], [252.0, 250.0, 180.0]];

/// All panels of one image: picture, truth, prediction, errors in a first row; total, aleatoric and epistemic uncertainty in
/// a second. Without a mask one row: picture, prediction, total, aleatoric, epistemic. Total and aleatoric uncertainty share
/// a scale from 0 to the logarithm of the number of classes, the epistemic part has its own, from 0 to its largest value.
///
/// # Shapes
/// picture `[3, H, W]` (0 … 255); `index` of the N images of `segmented`; mask `[H, W]`
///
/// # Errors
/// When the sizes differ.
pub fn panels(picture: &Tensor, segmented: &Segmented, index: i64, mask: Option<&Tensor>) -> Result<Picture> {
    let here = |tensor: &Tensor| tensor.get(index).to_device(Device::Cpu).to_kind(Kind::Float);
    let picture = picture.to_device(Device::Cpu).to_kind(Kind::Float).clamp(0.0, 255.0);
    let probs = here(&segmented.probs);
    let classes = probs.size()[0];
    let predicted = probs.argmax(0, false);
    let [total, aleatoric, epistemic] = [&segmented.total, &segmented.aleatoric, &segmented.epistemic].map(here);
    let most = (classes as f64).ln().max(1e-6);
    let own = epistemic.max().double_value(&[]).max(LEAST_SCALE);
    let doubts = [heat(&(total / most)), heat(&(aleatoric / most)), heat(&(epistemic / own))];
    let coloured = coloured(&predicted, classes);
    let rows = match mask {
        Some(mask) => {
            let mask = mask.to_device(Device::Cpu).to_kind(Kind::Int64);
            let wrong = errors(&picture, &predicted, &mask);
            let blank = picture.full_like(255.0);
            let [total, aleatoric, epistemic] = doubts;
            vec![
                vec![picture, self::coloured(&mask, classes), coloured, wrong],
                vec![total, aleatoric, epistemic, blank],
            ]
        }
        None => vec![[picture, coloured].into_iter().chain(doubts).collect()],
    };
    let sheet = sheet(&rows)?;
    let [_, height, width] = sheet.size()[..] else { unreachable!("a sheet has three axes") };
    let bytes = Vec::<u8>::try_from(sheet.round().to_kind(Kind::Uint8).permute([1, 2, 0]).contiguous().reshape([-1]))?;
    Picture::from_rgb(width as u32, height as u32, bytes)
        .ok_or_else(|| LabError::config("map", "does not have the bytes of its size"))
}

/// Panels in rows, white between them. `[3, H, W]` each → `[3, ..]`
fn sheet(rows: &[Vec<Tensor>]) -> Result<Tensor> {
    let mut lines = Vec::new();
    for row in rows {
        let mut line = Vec::new();
        for panel in row {
            line.push(panel.f_pad([0, GAP, 0, GAP], "constant", 255.0)?);
        }
        lines.push(Tensor::f_cat(&line, 2)?);
    }
    let all = Tensor::f_cat(&lines, 1)?;
    let size = all.size();
    Ok(all.narrow(1, 0, size[1] - GAP).narrow(2, 0, size[2] - GAP))
}

/// Numbers between 0 and 1 as colours. `[H, W]` → `[3, H, W]`
fn heat(values: &Tensor) -> Tensor {
    let anchors = Tensor::from_slice(&HEAT.concat()).view([HEAT.len() as i64, 3]);
    let place = values.nan_to_num(1.0, 1.0, 0.0).clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let low = place.floor().clamp_max((HEAT.len() - 2) as f64);
    let share = (&place - &low).unsqueeze(-1);
    let colour = |index: &Tensor| {
        let mut shape = index.size();
        shape.push(3);
        anchors.index_select(0, &index.to_kind(Kind::Int64).reshape([-1])).view(shape.as_slice())
    };
    let (from, to) = (colour(&low), colour(&(&low + 1.0)));
    (&from + (to - &from) * share).permute([2, 0, 1])
}

/// A colour for each class, far from its neighbours'; void is black. `[H, W]` → `[3, H, W]`
fn coloured(ids: &Tensor, classes: i64) -> Tensor {
    let table: Vec<f32> = (0..classes).flat_map(class_colour).chain([0.0; 3]).collect();
    let table = Tensor::from_slice(&table).view([classes + 1, 3]);
    let size = ids.size();
    let index = ids.clamp(0, classes).reshape([-1]); // void lies above all classes
    table.index_select(0, &index).view([size[0], size[1], 3]).permute([2, 0, 1])
}

/// Hues by the golden angle, in two brightnesses.
fn class_colour(class: i64) -> [f32; 3] {
    let hue = (class as f32 * 0.381_966).fract() * 6.0;
    let value = if class % 2 == 0 { 235.0 } else { 160.0 };
    [5.0_f32, 3.0, 1.0].map(|shift| {
        let k = (shift + hue) % 6.0;
        value * (1.0 - 0.75 * k.min(4.0 - k).clamp(0.0, 1.0))
    })
}

/// Wrong pixels red, right ones the picture in faint grey, void black.
fn errors(picture: &Tensor, predicted: &Tensor, mask: &Tensor) -> Tensor {
    let grey = picture.mean_dim(0, true, Kind::Float) * 0.4 + 120.0;
    let grey = grey.expand_as(picture);
    let red = Tensor::from_slice(&[220f32, 30.0, 30.0]).view([3, 1, 1]).expand_as(picture);
    let wrong = predicted.ne_tensor(mask).unsqueeze(0);
    let void = mask.eq(VOID).unsqueeze(0);
    red.where_self(&wrong, &grey).masked_fill(&void, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Tensor, Segmented, Tensor) {
        let probs = Tensor::from_slice(&[0.9f32, 0.2, 0.5, 0.1, 0.8, 0.5]).view([1, 2, 1, 3]);
        let total = Tensor::from_slice(&[0.3f32, 0.5, 0.69]).view([1, 1, 3]);
        let segmented = Segmented { epistemic: &total * 0.1, aleatoric: &total * 0.9, probs, total };
        let picture = Tensor::arange(9, (Kind::Float, Device::Cpu)).view([3, 1, 3]) * 20.0;
        (picture, segmented, Tensor::from_slice(&[0i64, 0, VOID]).view([1, 3]))
    }

    #[test]
    fn panels_stand_side_by_side() {
        let (picture, segmented, mask) = example();
        let with = panels(&picture, &segmented, 0, Some(&mask)).unwrap();
        assert_eq!(with.size(), [4 * 3 + 3 * GAP as u32, 2 + GAP as u32]);
        let without = panels(&picture, &segmented, 0, None).unwrap();
        assert_eq!(without.size(), [5 * 3 + 4 * GAP as u32, 1]);
        let at = |picture: &Picture, x: usize| picture.rgb()[3 * x..3 * x + 3].to_vec();
        assert_eq!(at(&with, 0), [0, 60, 120], "the picture's own first pixel");
        let errors = 3 * (3 + GAP as usize);
        assert_eq!(at(&with, errors + 1), [220, 30, 30], "a wrong pixel");
        assert_eq!(at(&with, errors + 2), [0, 0, 0], "void");
        assert_eq!(at(&with, 3), [255, 255, 255], "white between panels");
    }

    #[test]
    fn doubt_is_brighter_the_greater_it_is() {
        let colours = heat(&Tensor::from_slice(&[0f32, 0.25, 0.5, 0.75, 1.0]).view([1, 5]));
        let brightness = Vec::<f32>::try_from(colours.sum_dim_intlist(0, false, Kind::Float).reshape([-1])).unwrap();
        assert!(brightness.windows(2).all(|pair| pair[0] < pair[1]), "{brightness:?}");
        assert_eq!(coloured(&Tensor::from_slice(&[VOID]).view([1, 1]), 3).abs().max().double_value(&[]) as i64, 0);
    }
}
