//! What holds for all shapes and all pairs.

use fidgp::Key;
use fidgp::flow::{DiagonalConfig, Flow, FlowConfig, InitFlow, LipschitzConfig, NormBy};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tch::{Kind, Tensor};

use crate::{configs_for, gap, moved, normal};

/// Euclidean length of each row.
fn lengths(x: &Tensor) -> Tensor {
    x.square().sum_dim_intlist([-1_i64].as_slice(), false, Kind::Double).sqrt()
}

/// The largest ratio of distances after and before, over random pairs.
fn expansion(flow: &dyn Flow, key: Key, spread: f64) -> f64 {
    let (x, step) = (normal(key.fold("x"), &[64, flow.dim()]), normal(key.fold("step"), &[64, flow.dim()]) * spread);
    let after = flow.forward(&(&x + &step), None).value - flow.forward(&x, None).value;
    (lengths(&after) / lengths(&step)).max().double_value(&[])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shapes_are_kept_and_inverses_hold(rows in 1_i64..5, dim in 1_i64..7, draws in 1_i64..3, seed in 0_u64..1000) {
        for config in configs_for(dim) {
            let (_store, flow) = moved(&config, dim, 0.1, Key::new(seed));
            let x = normal(Key::new(seed).fold("x"), &[draws, rows, dim]);
            let flowed = flow.forward(&x, None);
            prop_assert_eq!(flowed.value.size(), x.size());
            prop_assert_eq!(flowed.log_det.size(), vec![draws, rows]);
            let back = flow.inverse(&flowed.value).unwrap();
            prop_assert!(gap(&back, &x) < 1e-7, "{:?}: {}", config, gap(&back, &x));
        }
    }

    #[test]
    fn contracting_flows_never_expand(dim in 1_i64..7, seed in 0_u64..1000, noise in 0.0_f64..3.0, spread in 1e-3_f64..10.0) {
        let lipschitz = |norm| FlowConfig::Lipschitz(LipschitzConfig { layers: 2, norm });
        for config in [lipschitz(NormBy::Exact), lipschitz(NormBy::Power), FlowConfig::Diagonal(DiagonalConfig::default())] {
            let (_store, flow) = moved(&config, dim, noise, Key::new(seed));
            flow.settle_spectral();
            let ratio = expansion(&flow, Key::new(seed).fold("pairs"), spread);
            prop_assert!(ratio <= 1.0 + 1e-6, "{:?}: {}", config, ratio);
        }
    }
}

#[test]
fn an_unsettled_power_iteration_is_measured_not_hidden() {
    let store = crate::store();
    let flow = LipschitzConfig::default().init(&store.root(), 6, Key::new(3)).unwrap();
    store.variables().into_iter().filter(|(name, _)| name.ends_with("weight")).for_each(|(name, mut w)| {
        tch::no_grad(|| w.copy_(&normal(Key::new(4).fold(&name), &[6, 6])));
    });
    assert!(flow.lipschitz_bound() > 1.0 + 1e-3); // the weights have moved, the iteration has not followed
    flow.settle_spectral();
    assert!(flow.lipschitz_bound() < 1.0 + 1e-6);
}
