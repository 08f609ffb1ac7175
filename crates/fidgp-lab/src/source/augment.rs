//! Random changes of training images, a whole batch at a time on the device.

use fidgp::Key;
use tch::{Kind, Tensor};

use crate::config::PADDING;

/// Crops each image at its own place after reflect padding, and flips half of them.
///
/// # Shapes
/// `[N, C, H, W]` → the same
pub fn crop_and_flip(images: &Tensor, key: Key) -> Tensor {
    crop_and_flip_part(images, key, (images.size()[0], 0))
}

/// The same for images that stand in a batch of so many, from a place on: each changes as it does in the whole batch.
pub fn crop_and_flip_part(images: &Tensor, key: Key, (batch, first): (i64, i64)) -> Tensor {
    let [n, c, h, w] = images.size()[..] else { unreachable!("images have four axes") };
    let device = images.device();
    let random = key.uniform(&[3, batch, 1], Kind::Float, device).narrow(1, first, n);
    let offset = |row: i64| (random.get(row) * (2 * PADDING + 1) as f64).floor().to_kind(Kind::Int64);
    let along = |size: i64| Tensor::arange(size, (Kind::Int64, device)).unsqueeze(0);
    let rows = offset(0) + along(h); // [N, H]
    let flip = random.get(2).lt(0.5).to_kind(Kind::Int64);
    let columns: Tensor = offset(1) + &flip * (w - 1 - along(w)) + (1 - &flip) * along(w); // [N, W]
    let padded = images.reflection_pad2d([PADDING; 4]);
    let rows = rows.view([n, 1, h, 1]).expand([n, c, h, w + 2 * PADDING], false);
    let columns = columns.view([n, 1, 1, w]).expand([n, c, h, w], false);
    padded.gather(2, &rows, false).gather(3, &columns, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn images_of_a_part_change_as_in_the_whole() {
        let images = Key::new(1).uniform(&[5, 3, 6, 6], Kind::Float, Device::Cpu);
        let whole = crop_and_flip(&images, Key::new(3));
        assert_eq!(crop_and_flip_part(&images.narrow(0, 2, 2), Key::new(3), (5, 2)), whole.narrow(0, 2, 2));
    }

    #[test]
    fn every_result_is_a_crop_of_the_padded_image_or_its_mirror() {
        let images = Tensor::arange(2 * 3 * 8 * 8, (Kind::Float, Device::Cpu)).view([2, 3, 8, 8]);
        let changed = crop_and_flip(&images, Key::new(3));
        let padded = images.reflection_pad2d([PADDING; 4]);
        for n in 0..2 {
            let found = (0..=8).any(|dy| {
                (0..=8).any(|dx| {
                    let crop = padded.get(n).narrow(1, dy, 8).narrow(2, dx, 8);
                    crop == changed.get(n) || crop.flip([2]) == changed.get(n)
                })
            });
            assert!(found, "image {n}");
        }
        assert_eq!(changed, crop_and_flip(&images, Key::new(3)));
        assert_ne!(changed, crop_and_flip(&images, Key::new(4)));
    }
}
