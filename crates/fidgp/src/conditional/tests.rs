//! Matheron's rule by hand against libtorch's own gradients.

use super::*;
use crate::Key;
use crate::linalg::Jitter;
use crate::prior::GramFactors;
use tch::Device;

fn leaf(name: &str, shape: &[i64]) -> Tensor {
    Key::new(2).fold(name).normal(shape, Kind::Double, Device::Cpu).set_requires_grad(true)
}

/// W and all gradients; stacked, libtorch's own backward pass computes them.
fn computed(sizes: Sizes, stacked: bool) -> Vec<Tensor> {
    let Sizes { d_out, d_in, rows, cols } = sizes;
    let inputs = [
        leaf("v", &[rows, cols]),
        leaf("scale", &[]),
        leaf("a_row", &[rows, d_out]),
        leaf("a_col", &[cols, d_in]),
        leaf("l_row", &[rows, rows]),
        leaf("l_col", &[cols, cols]),
        leaf("z_row", &[rows, d_out]),
        leaf("z_col", &[cols, d_in]),
        leaf("c_row", &[rows, rows]),
        leaf("c_col", &[cols, cols]),
        leaf("d_row", &[rows]),
        leaf("d_col", &[cols]),
    ];
    let of = |place: usize| if stacked { inputs[place].unsqueeze(0) } else { inputs[place].shallow_clone() };
    let factors = PriorFactors {
        l_row: of(4),
        l_col: of(5),
        l_row_inverse: of(4),
        l_col_inverse: of(5),
        a_row: of(2),
        a_col: of(3),
        z_row: of(6),
        z_col: of(7),
        d_row: of(10),
        d_col: of(11),
        jitter: Jitter::NONE,
        grams: Some(GramFactors { z_row_chol: of(8), z_col_chol: of(9) }),
    };
    let noise = MatheronNoise::draw(Key::new(4), sizes, &mut |key, shape| {
        let normal = key.normal(shape, Kind::Double, Device::Cpu);
        if stacked { normal.unsqueeze(i64::from(shape.len() == 3)) } else { normal }
    });
    let weight = matheron(&factors, &of(0), &of(1), &noise).unwrap().reshape([d_out, d_in]);
    (&weight * Key::new(6).normal(&[d_out, d_in], Kind::Double, Device::Cpu)).sum(Kind::Double).backward();
    std::iter::once(weight.detach()).chain(inputs.iter().map(Tensor::grad)).collect()
}

#[test]
fn the_pullback_is_the_gradient() {
    let sizes = |d_out, d_in, rows, cols| Sizes { d_out, d_in, rows, cols };
    for sizes in [sizes(5, 8, 3, 4), sizes(8, 5, 4, 2), sizes(1, 4, 1, 3), sizes(3, 3, 5, 6)] {
        for (own, theirs) in computed(sizes, false).iter().zip(computed(sizes, true)) {
            let gap = (own - &theirs).abs().max().double_value(&[]);
            assert_eq!(own.size(), theirs.size());
            assert!(gap < 1e-10 * (1.0 + theirs.abs().max().double_value(&[])), "{sizes:?}: {gap:e}");
        }
    }
}
