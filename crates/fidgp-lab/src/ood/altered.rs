//! ID pictures in another light: sets that are made of the ID test set, for models whose domain has no other set at hand.

use fidgp::Key;
use tch::{Device, Kind, Tensor};

use super::sets::{BLURRED, FOG, NIGHT, NOISY, PixelSet};

/// The ID images altered in the way that has this name; none where it is no such name.
pub fn altered(name: &str, id: &PixelSet, seed: u64) -> Option<PixelSet> {
    let x = id.pixels.to_kind(Kind::Float) / 255.0;
    let noise = |sd: f64| Key::new(seed).fold(name).normal(&x.size(), Kind::Float, Device::Cpu) * sd;
    let y = match name {
        NIGHT => {
            let tint = Tensor::from_slice(&[0.25f32, 0.3, 0.45]).view([1, 3, 1, 1]);
            if x.size()[1] == 3 { x.pow_tensor_scalar(1.6) * tint + noise(0.03) } else { &x * 0.3 + noise(0.03) }
        }
        BLURRED => x.avg_pool2d([9; 2], [1; 2], [4; 2], false, false, None),
        NOISY => &x + noise(0.1),
        FOG => &x * 0.35 + 0.5,
        _ => return None,
    };
    let pixels = (y * 255.0).round().clamp(0.0, 255.0).to_kind(Kind::Uint8);
    Some(PixelSet { name: name.to_owned(), pixels, labels: Vec::new(), native: id.native.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alteration_keeps_the_shape_and_changes_the_pixels() {
        let pixels = (Key::new(1).uniform(&[2, 3, 12, 12], Kind::Float, Device::Cpu) * 255.0).to_kind(Kind::Uint8);
        let id = PixelSet { name: "id".to_owned(), pixels, labels: Vec::new(), native: "png".to_owned() };
        let mean = |set: &PixelSet| set.pixels.to_kind(Kind::Float).mean(Kind::Float).double_value(&[]);
        for name in [NIGHT, BLURRED, NOISY, FOG] {
            let set = altered(name, &id, 3).unwrap();
            assert_eq!(set.pixels.size(), id.pixels.size(), "{name}");
            assert_ne!(set.pixels, id.pixels, "{name}");
            assert_eq!(set.pixels, altered(name, &id, 3).unwrap().pixels, "{name}");
        }
        assert!(mean(&altered(NIGHT, &id, 3).unwrap()) < 0.5 * mean(&id));
        assert!(altered("day", &id, 3).is_none());
    }
}
