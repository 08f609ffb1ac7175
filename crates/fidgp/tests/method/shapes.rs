//! What holds for all sizes, over-complete ones included.

use fidgp::Key;
use fidgp::conditional::{Conditional, ConditionalKl, NoiseOn};
use fidgp::flow::FlowConfig;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::{Drawn, InducingConfig, InducingWeight};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tch::{Kind, Tensor};

use crate::common::{factors, store};

fn finite(x: &Tensor) -> bool {
    x.isfinite().all().int64_value(&[]) == 1
}

fn families() -> impl Strategy<Value = PosteriorConfig> {
    prop_oneof![
        Just(PosteriorConfig::Diagonal),
        Just(PosteriorConfig::MatrixNormal),
        Just(PosteriorConfig::Full),
        (1_i64..4).prop_map(|members| PosteriorConfig::Ensemble { members }),
        Just(PosteriorConfig::Flow { flow: FlowConfig::default() }),
    ]
}

fn conditionals() -> impl Strategy<Value = (Conditional, NoiseOn, ConditionalKl)> {
    prop_oneof![
        Just((Conditional::Matheron, NoiseOn::Weights, ConditionalKl::Paper)),
        Just((Conditional::Reparam, NoiseOn::Weights, ConditionalKl::Exact)),
        Just((Conditional::Reparam, NoiseOn::Outputs, ConditionalKl::Paper)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..ProptestConfig::default() })]

    /// Start values and settings are the defaults: D = 1e-3, jitter 1e-5.
    #[test]
    fn any_size_draws(
        (d_out, d_in) in (1_i64..6, 1_i64..6),
        (inducing_rows, inducing_cols) in (1_i64..8, 1_i64..8),
        cap_inducing: bool,
        single: bool,
        posterior in families(),
        (conditional, noise, conditional_kl) in conditionals(),
        seed in 0_u64..1000,
    ) {
        let closed_form = !matches!(posterior, PosteriorConfig::Flow { .. });
        let config = InducingConfig {
            inducing_rows: inducing_rows.into(), inducing_cols: inducing_cols.into(), cap_inducing, posterior, conditional, noise, conditional_kl, ..InducingConfig::default()
        };
        let store = store(if single { Kind::Float } else { Kind::Double });
        let weight = InducingWeight::init(&(store.root() / "fc"), d_out, d_in, &config, Key::new(seed)).unwrap();
        let sizes = weight.sizes();
        let capped = |size: i64, width: i64| if cap_inducing { size.min(width) } else { size };
        prop_assert_eq!((sizes.d_out, sizes.d_in), (d_out, d_in));
        prop_assert_eq!((sizes.rows, sizes.cols), (capped(inducing_rows, d_out), capped(inducing_cols, d_in)));

        let prior = factors(&weight);
        prop_assert!([&prior.l_row, &prior.l_col, &prior.a_row, &prior.a_col].into_iter().all(finite));
        prop_assert!(prior.grams.as_ref().is_none_or(|grams| finite(&grams.z_row_chol) && finite(&grams.z_col_chol)));
        prop_assert_eq!(prior.grams.is_some(), conditional == Conditional::Matheron);
        prop_assert_eq!((prior.t_row().size(), prior.t_col().size()), (vec![d_out, sizes.rows], vec![sizes.cols, d_in]));
        prop_assert_eq!(weight.mean(&prior).size(), vec![d_out, d_in]);

        let (drawn, kl) = weight.draw(&prior, &weight.noise(Key::new(seed).fold("draw"), false)).unwrap();
        let value = match drawn {
            Drawn::Weight(weight) => weight,
            Drawn::MeanAndScale { mean, scale } => mean.matrix() + scale,
        };
        prop_assert_eq!(value.size(), vec![d_out, d_in]);
        prop_assert!(finite(&value) && finite(&weight.mean(&prior)));
        prop_assert!(finite(&kl.inducing) && (!closed_form || kl.inducing.double_value(&[]) >= 0.0));
        prop_assert!(kl.conditional.double_value(&[]) >= 0.0, "{:?}", kl.conditional);
    }
}
