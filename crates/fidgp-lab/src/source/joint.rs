//! Random changes of pictures and their masks together, a whole batch at a time on the device.

use fidgp::Key;
use fidgp::objective::VOID;
use tch::{Kind, Tensor};

use crate::config::SegmentationConfig;

/// What is done to pictures with masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// Height and width of the result.
    pub crop: [i64; 2],
    /// Least and largest enlargement.
    pub scale: [f64; 2],
    /// Whether half of the pictures are mirrored.
    pub flip: bool,
    /// Largest relative change of brightness, contrast and saturation.
    pub jitter: f64,
}

/// libtorch's numbers for the ways to read between pixels, and for zeros outside.
const BILINEAR: i64 = 0;
const NEAREST: i64 = 1;
const ZEROS: i64 = 0;

impl Joint {
    /// The changes of a config.
    pub fn of(config: &SegmentationConfig) -> Self {
        Self { crop: config.crop, scale: config.scale, flip: config.flip, jitter: config.jitter }
    }

    /// Enlarges, crops, mirrors and recolours each picture in its own way; the middle, unchanged, without a key. What lies
    /// outside a picture has the colour `outside` and no class.
    ///
    /// # Shapes
    /// pictures `[N, 3, H, W]` (0 … 255), masks `[N, H, W]`, outside `[3]` → `[N, 3, crop]`, `[N, crop]` (i64)
    pub fn apply(&self, pictures: &Tensor, masks: &Tensor, outside: &Tensor, key: Option<Key>) -> (Tensor, Tensor) {
        self.apply_to_part((pictures, masks), outside, key, (pictures.size()[0], 0))
    }

    /// The same for pictures that stand in a batch of so many, from a place on: each changes as it does in the whole batch.
    pub fn apply_to_part(
        &self,
        (pictures, masks): (&Tensor, &Tensor),
        outside: &Tensor,
        key: Option<Key>,
        place: (i64, i64),
    ) -> (Tensor, Tensor) {
        let grid = self.grid(pictures, key, place);
        let outside = outside.view([1, 3, 1, 1]);
        let pictures = (pictures.to_kind(Kind::Float) - &outside).grid_sampler(&grid, BILINEAR, ZEROS, false) + outside;
        let classes = masks.to_kind(Kind::Float).unsqueeze(1) - VOID as f64;
        let classes = classes.grid_sampler(&grid, NEAREST, ZEROS, false) + VOID as f64;
        let masks = classes.squeeze_dim(1).round().to_kind(Kind::Int64);
        let pictures = match key {
            Some(key) if self.jitter > 0.0 => self.recoloured(&pictures, key.fold("colour"), place),
            _ => pictures,
        };
        (pictures, masks)
    }

    /// Where each pixel of the result comes from, on the scale where a picture reaches from −1 to 1. `[N, h, w, 2]`
    fn grid(&self, pictures: &Tensor, key: Option<Key>, (batch, first): (i64, i64)) -> Tensor {
        let [n, _, height, width] = pictures.size()[..] else { unreachable!("pictures have four axes") };
        let options = (Kind::Float, pictures.device());
        let random = match key {
            Some(key) => key.uniform(&[4, batch, 1], Kind::Float, pictures.device()).narrow(1, first, n),
            None => Tensor::full([4, n, 1], 0.5, options),
        };
        let [least, most] = self.scale;
        // Evenly on a logarithmic scale: half the size is as frequent as twice the size.
        let scale = match key {
            Some(_) => (random.get(0) * (most / least).ln() + least.ln()).exp(), // [N, 1]
            None => Tensor::ones([n, 1], options),
        };
        let along = |side: i64, size: i64, random: &Tensor| {
            let seen = scale.reciprocal() * side as f64; // in pixels of the picture
            let start = random * (seen.neg() + size as f64); // a crop larger than the picture: it lies somewhere inside
            let steps = (Tensor::arange(side, options) + 0.5).unsqueeze(0) / &scale;
            (start + steps) * (2.0 / size as f64) - 1.0 // [N, side]
        };
        let [rows, cols] = self.crop;
        let (y, x) = (along(rows, height, &random.get(1)), along(cols, width, &random.get(2)));
        let x = if self.flip && key.is_some() { x.flip([1]).where_self(&random.get(3).lt(0.5), &x) } else { x };
        let x = x.view([n, 1, cols]).expand([n, rows, cols], false);
        let y = y.view([n, rows, 1]).expand([n, rows, cols], false);
        Tensor::stack(&[x, y], -1)
    }

    /// Brightness, contrast and saturation, each by its own factor.
    fn recoloured(&self, pictures: &Tensor, key: Key, (batch, first): (i64, i64)) -> Tensor {
        let n = pictures.size()[0];
        let random = key.uniform(&[3, batch, 1, 1, 1], Kind::Float, pictures.device()).narrow(1, first, n);
        let factors = (random * 2.0 - 1.0) * self.jitter + 1.0;
        let grey = |pictures: &Tensor| {
            let part = |channel: i64, share: f64| pictures.narrow(1, channel, 1) * share;
            part(0, 0.299) + part(1, 0.587) + part(2, 0.114)
        };
        let brighter = pictures * factors.get(0);
        let middle = grey(&brighter).mean_dim([1i64, 2, 3].as_slice(), true, Kind::Float);
        let contrasted = (brighter - &middle) * factors.get(1) + middle;
        let grey = grey(&contrasted);
        ((contrasted - &grey) * factors.get(2) + grey).clamp(0.0, 255.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    fn pair() -> (Tensor, Tensor, Tensor) {
        let (rows, cols) =
            (Tensor::arange(6, (Kind::Int64, Device::Cpu)), Tensor::arange(8, (Kind::Int64, Device::Cpu)));
        let ids = rows.view([1, 6, 1]) + cols.view([1, 1, 8]) * 20;
        let pictures = ids.unsqueeze(1).expand([1, 3, 6, 8], false).to_kind(Kind::Uint8);
        (pictures, ids.to_kind(Kind::Uint8), Tensor::zeros([3], (Kind::Float, Device::Cpu)))
    }

    /// 1 at and beside the places that are set.
    fn near(set: &Tensor) -> Tensor {
        set.to_kind(Kind::Float).unsqueeze(1).max_pool2d([3; 2], [1; 2], [1; 2], [1; 2], false).squeeze_dim(1)
    }

    fn joint(crop: [i64; 2], scale: [f64; 2]) -> Joint {
        Joint { crop, scale, flip: true, jitter: 0.0 }
    }

    #[test]
    fn without_a_key_the_middle_is_left_as_it_is() {
        let (pictures, masks, outside) = pair();
        let (x, y) = joint([4, 4], [0.5, 2.0]).apply(&pictures, &masks, &outside, None);
        let middle = masks.narrow(1, 1, 4).narrow(2, 2, 4).to_kind(Kind::Int64);
        assert_eq!(y, middle);
        assert!((x.select(1, 0) - middle).abs().max().double_value(&[]) < 1e-4);
    }

    #[test]
    fn pictures_of_a_part_change_as_in_the_whole() {
        let (pictures, masks, outside) = pair();
        let (pictures, masks) = (pictures.repeat([5, 1, 1, 1]), masks.repeat([5, 1, 1]));
        let joint = Joint { jitter: 0.4, ..joint([3, 5], [0.5, 2.0]) };
        let key = Some(Key::new(5));
        let whole = joint.apply(&pictures, &masks, &outside, key);
        let own = (&pictures.narrow(0, 2, 2), &masks.narrow(0, 2, 2));
        let part = joint.apply_to_part(own, &outside, key, (5, 2));
        assert_eq!(part, (whole.0.narrow(0, 2, 2), whole.1.narrow(0, 2, 2)));
    }

    #[test]
    fn picture_and_mask_move_together() {
        let (pictures, masks, outside) = pair();
        let pictures = pictures.repeat([16, 1, 1, 1]);
        let masks = masks.repeat([16, 1, 1]);
        let (x, y) = joint([3, 5], [1.0, 1.0]).apply(&pictures, &masks, &outside, Some(Key::new(5)));
        let gap = (x.select(1, 1) - &y).abs().max().double_value(&[]);
        assert!(gap < 10.6, "half a pixel in each direction at most: {gap}"); // a column is 20, a row is 1
        let first = y.select(1, 0).select(1, 0);
        assert!(first.max().int64_value(&[]) > first.min().int64_value(&[]), "every crop lies elsewhere");
        let slopes = (y.select(2, 1) - y.select(2, 0)).select(1, 0);
        assert!(slopes.min().int64_value(&[]) < 0 && slopes.max().int64_value(&[]) > 0, "some are mirrored");
        assert_eq!(joint([3, 5], [1.0, 1.0]).apply(&pictures, &masks, &outside, Some(Key::new(5))).1, y);
        assert_ne!(joint([3, 5], [1.0, 1.0]).apply(&pictures, &masks, &outside, Some(Key::new(6))).1, y);
    }

    #[test]
    fn outside_the_picture_there_is_no_class() {
        let (pictures, masks, _) = pair();
        let outside = Tensor::from_slice(&[7f32, 8.0, 9.0]);
        let (x, y) = joint([12, 16], [1.0, 1.0]).apply(&pictures, &masks, &outside, Some(Key::new(1)));
        let void = y.eq(VOID);
        assert!(void.sum(Kind::Int64).int64_value(&[]) >= 12 * 16 - 7 * 9);
        // Far from every pixel of the picture there is nothing but the colour of the outside.
        let far = -near(&void.logical_not());
        let blue = (x.select(1, 2) - 9.0).abs() * (far + 1.0);
        assert!(blue.max().double_value(&[]) < 1e-4);
    }

    #[test]
    fn colours_stay_within_their_range_and_masks_stay_as_they_are() {
        let pictures = Key::new(3).uniform(&[4, 3, 5, 5], Kind::Float, Device::Cpu) * 255.0;
        let masks = Tensor::zeros([4, 5, 5], (Kind::Uint8, Device::Cpu));
        let outside = Tensor::zeros([3], (Kind::Float, Device::Cpu));
        let joint = Joint { jitter: 0.5, flip: false, ..joint([5, 5], [1.0, 1.0]) };
        let (x, y) = joint.apply(&pictures, &masks, &outside, Some(Key::new(4)));
        assert!(x.min().double_value(&[]) >= 0.0 && x.max().double_value(&[]) <= 255.0);
        assert!((&x - &pictures).abs().mean(Kind::Float).double_value(&[]) > 1.0);
        assert_eq!(y.abs().max().int64_value(&[]), 0);
    }
}
