//! Other methods against plain networks: where a method has nothing of its own left, it is the plain network.

use std::sync::Arc;

use fidgp::Key;
use fidgp::layer::{Factors, FitData, MakeWeight, Mode, Network, Pass, Slot, Taps};
use fidgp::linalg::Check;
use fidgp::objective::categorical_curvature;
use fidgp_zoo::baseline::spectral::SpectralBound;
use fidgp_zoo::methods::batch_ensemble::{BatchEnsembleConfig, BatchEnsembleNetwork};
use fidgp_zoo::methods::ensemble::Ensemble;
use fidgp_zoo::methods::mc_dropout::DropoutConfig;
use fidgp_zoo::methods::mean_field::MeanFieldConfig;
use fidgp_zoo::methods::sngp::SngpConfig;
use fidgp_zoo::{
    Architecture, Counting, LayerGeometry, LayerPlan, MlpConfig, Operation, ResnetConfig, RuleSlot, cost,
    start_network, trace,
};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn boxed(network: impl Architecture + 'static) -> Box<dyn Architecture> {
    Box::new(network)
}

fn dropout(rate: f64) -> DropoutConfig {
    DropoutConfig { rate, ..DropoutConfig::default() }
}

fn mean_field() -> MeanFieldConfig {
    MeanFieldConfig { init_sd: 0.05, sqrt_width_scaling: true, ..MeanFieldConfig::default() }
}

fn batch_ensemble(members: i64, init_sd: f64) -> BatchEnsembleConfig {
    BatchEnsembleConfig { members, init_sd, ..BatchEnsembleConfig::default() }
}

/// Each with its members.
fn slots() -> [(Arc<dyn MakeWeight>, i64); 4] {
    [
        (Arc::new(dropout(0.2)), 1),
        (Arc::new(mean_field()), 1),
        (Arc::new(batch_ensemble(3, 0.5)), 3),
        (Arc::new(SpectralBound(0.7)), 1),
    ]
}

fn plan(slot: impl MakeWeight + 'static) -> LayerPlan {
    plan_of(Arc::new(slot))
}

fn plan_of(slot: Arc<dyn MakeWeight>) -> LayerPlan {
    LayerPlan::dense().rule("*", None, RuleSlot::Custom(slot))
}

fn networks() -> [(Box<dyn Architecture>, Vec<i64>); 2] {
    let mlp = MlpConfig { inputs: 5, hidden: vec![7, 6], outputs: 3, ..MlpConfig::paper_regression() };
    let resnet = ResnetConfig { width: 4, classes: 3, ..ResnetConfig::default() };
    [(boxed(mlp), vec![6, 5]), (boxed(resnet), vec![6, 3, 16, 16])]
}

struct Built {
    store: VarStore,
    network: Box<dyn Network>,
}

fn build(config: &impl std::ops::Deref<Target = dyn Architecture>, plan: &LayerPlan) -> Built {
    let store = VarStore::new(Device::Cpu);
    let network = config.init(&store.root(), plan, Key::new(3)).unwrap();
    Built { store, network }
}

fn input(shape: &[i64]) -> Tensor {
    Key::new(4).normal(shape, Kind::Float, Device::Cpu)
}

fn noisy(mode: Mode, key: u64) -> Pass {
    Pass::draw(&[], &Factors::of(&[], Check::Now).unwrap(), mode, Key::new(key)).unwrap()
}

fn gap(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

fn set(store: &VarStore, ending: &str, value: f64) {
    let named = store.variables().into_iter().filter(|(name, _)| name.ends_with(ending));
    tch::no_grad(|| named.for_each(|(_, mut tensor)| _ = tensor.fill_(value)));
}

#[test]
fn a_batch_ensemble_of_one_with_unit_vectors_is_the_plain_network() {
    for (config, shape) in networks() {
        let plain = build(&config, &LayerPlan::dense());
        let wrapped = build(&config, &plan(batch_ensemble(1, 0.0)));
        let tiled = BatchEnsembleNetwork { network: wrapped.network, members: 1 };
        for mode in [Mode::Eval, Mode::Train] {
            let x = input(&shape);
            let expected = plain.network.forward(&x, &mut Pass::plain(mode)).unwrap();
            assert!(gap(&tiled.forward(&x, &mut Pass::plain(mode)).unwrap(), &expected) < 1e-5);
        }
    }
}

#[test]
fn every_member_of_a_batch_ensemble_is_a_network_of_its_own() {
    let (config, shape) = &networks()[1];
    let wrapped = build(config, &plan(batch_ensemble(3, 0.5)));
    let tiled = BatchEnsembleNetwork { network: wrapped.network, members: 3 };
    let outputs = tiled.forward(&input(shape), &mut Pass::plain(Mode::Eval)).unwrap();
    assert_eq!(outputs.size(), [18, 3]);
    assert!(gap(&outputs.narrow(0, 0, 6), &outputs.narrow(0, 6, 6)) > 1e-3);
    // member k is the plain network with the weights W ⊙ γ_k α_kᵀ
    let (own, plain) = (wrapped.store.variables(), build(config, &LayerPlan::dense()));
    for k in 0..3 {
        for (name, mut tensor) in plain.store.variables() {
            let (layer, part) = name.rsplit_once('.').unwrap();
            let Some(inputs) = own.get(&format!("{layer}.input_scale")) else { continue };
            let member = if part == "bias" {
                own[&name].get(k)
            } else {
                let scale = own[&format!("{layer}.output_scale")].get(k).outer(&inputs.get(k));
                let shape: Vec<_> = scale.size().into_iter().chain(vec![1; tensor.dim() - 2]).collect();
                &own[&name] * scale.view(shape.as_slice())
            };
            tch::no_grad(|| tensor.copy_(&member));
        }
        let alone = plain.network.forward(&input(shape), &mut Pass::plain(Mode::Eval)).unwrap();
        assert!(gap(&outputs.narrow(0, 6 * k, 6), &alone) < 1e-4, "member {k}");
    }
    // a batch that was not tiled is refused, not silently split
    let untiled = tiled.network.forward(&input(&[4, 3, 16, 16]), &mut Pass::plain(Mode::Eval));
    assert!(untiled.unwrap_err().to_string().contains("once for each member"));
}

#[test]
fn mean_field_without_deviation_is_the_plain_network() {
    for (config, shape) in networks() {
        let plain = build(&config, &LayerPlan::dense());
        let wrapped = build(&config, &plan(mean_field()));
        set(&wrapped.store, "_sd", -60.0); // σ = 0.1 · sigmoid(−60) ≈ 1e-27
        let x = input(&shape);
        for mode in [Mode::Eval, Mode::Train] {
            let expected = plain.network.forward(&x, &mut Pass::plain(mode)).unwrap();
            let found = wrapped.network.forward(&x, &mut noisy(mode, 1)).unwrap();
            assert!(gap(&found, &expected) < 1e-3, "{mode:?}: {}", gap(&found, &expected)); // the floor of the root is 1e-6
        }
    }
}

#[test]
fn every_method_starts_at_a_trained_network() {
    let silent: [(Arc<dyn MakeWeight>, i64); 3] =
        [(Arc::new(dropout(0.0)), 1), (Arc::new(batch_ensemble(3, 0.0)), 3), (Arc::new(SpectralBound(1e6)), 1)];
    let (config, shape) = &networks()[1];
    let store = VarStore::new(Device::Cpu);
    let trained = config.init(&store.root(), &LayerPlan::dense(), Key::new(8)).unwrap();
    let x = input(shape);
    let expected = trained.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
    for (slot, members) in silent {
        let wrapped = build(config, &plan_of(slot.clone()));
        let tiled = BatchEnsembleNetwork { network: wrapped.network, members };
        let outputs = || tiled.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap().narrow(0, 6 * (members - 1), 6);
        assert!(gap(&outputs(), &expected) > 1e-2, "{slot:?} is the trained one before its start");
        start_network(&tiled, &wrapped.store, store.variables()).unwrap();
        assert!(gap(&outputs(), &expected) < 1e-4, "{slot:?}: {}", gap(&outputs(), &expected));
    }
    // what the plain network does not have stays: random factors are not set to one
    let apart = build(config, &plan(batch_ensemble(3, 0.5)));
    let before = apart.store.variables()["fc.input_scale"].copy();
    start_network(apart.network.as_ref(), &apart.store, store.variables()).unwrap();
    assert_eq!(apart.store.variables()["fc.input_scale"], before);
}

/// A bound that binds: the iteration follows the weight that is there now, not the random one it was made with.
#[test]
fn a_bounded_network_starts_at_a_bounded_one() {
    let (config, shape) = &networks()[1];
    let bounded = plan(SpectralBound(0.7));
    let trained = build(config, &bounded);
    let is_weight = |name: &str| name.ends_with(".weight") && !name.contains("bn") && !name.contains("downsample.1");
    let weights = trained.store.variables().into_iter().filter(|(name, _)| is_weight(name));
    tch::no_grad(|| weights.for_each(|(_, mut weight)| weight *= 5.0));
    let x = input(shape);
    for _ in 0..200 {
        let _ = trained.network.forward(&x, &mut Pass::plain(Mode::Train)).unwrap(); // the iteration settles
    }
    let outputs = |built: &Built| built.network.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
    let started = build(config, &bounded);
    let plain = trained.store.variables().into_iter().filter(|(name, _)| !name.contains("power"));
    start_network(started.network.as_ref(), &started.store, plain).unwrap();
    let expected = outputs(&trained);
    let error = gap(&outputs(&started), &expected) / expected.abs().max().double_value(&[]);
    assert!(error < 1e-3, "{error}");
}

#[test]
fn mean_field_noise_on_outputs_has_the_law_of_noise_on_weights() {
    let config = boxed(MlpConfig { inputs: 5, hidden: vec![], outputs: 2, ..MlpConfig::default() });
    let built = build(&config, &plan(mean_field()));
    let x = input(&[1, 5]);
    let many = |mode: Mode| {
        let draws = (0..4000).map(|key| built.network.forward(&x, &mut noisy(mode, key)).unwrap());
        Tensor::cat(&draws.collect::<Vec<_>>(), 0).detach().var_dim(0, true, false)
    };
    let ratio = many(Mode::Train) / many(Mode::Eval);
    // a variance of n draws has relative deviation √(2/n), a ratio of two twice the square of it: 4 of them
    assert!((ratio - 1.0).abs().max().double_value(&[]) < 4.0 * (4.0_f64 / 4000.0).sqrt());
}

#[test]
fn a_draw_of_mean_field_is_one_weight_for_all_batches() {
    let (config, shape) = &networks()[0];
    let built = build(config, &plan(mean_field()));
    let mut pass = noisy(Mode::Eval, 9);
    let x = input(shape);
    let first = built.network.forward(&x, &mut pass).unwrap();
    pass.set_noise(Key::new(77));
    assert_eq!(built.network.forward(&x, &mut pass).unwrap(), first);
}

#[test]
fn mean_field_charges_its_kl_in_training_only() {
    let (config, shape) = &networks()[0];
    let built = build(config, &plan(mean_field()));
    let kl = |mode: Mode| {
        let mut pass = noisy(mode, 2);
        _ = built.network.forward(&input(shape), &mut pass).unwrap();
        pass.kl().iter().map(|(_, kl)| kl.inducing.double_value(&[])).collect::<Vec<_>>()
    };
    assert_eq!(kl(Mode::Train).len(), 3);
    assert!(kl(Mode::Train).iter().all(|kl| *kl > 0.0));
    assert!(kl(Mode::Eval).is_empty());
}

#[test]
fn dropout_drops_its_share_keeps_the_mean_and_is_off_without_noise() {
    let config = boxed(MlpConfig { inputs: 10_000, hidden: vec![], outputs: 1, ..MlpConfig::default() });
    let built = build(&config, &plan(dropout(0.2)));
    set(&built.store, "weight", 1.0);
    set(&built.store, "bias", 0.0);
    let x = Tensor::ones([1, 10_000], (Kind::Float, Device::Cpu));
    let sum = |mut pass: Pass| built.network.forward(&x, &mut pass).unwrap().double_value(&[0, 0]);
    assert!((sum(Pass::plain(Mode::Eval)) - 10_000.0).abs() < 1.0);
    // Binomial(10000, 0.8)/0.8 has deviation √(10000·0.8·0.2)/0.8 = 50
    assert!((sum(noisy(Mode::Eval, 3)) - 10_000.0).abs() < 200.0);
    let bits = |mode: Mode, key: u64| sum(noisy(mode, key)).to_bits();
    assert_ne!(bits(Mode::Eval, 3), bits(Mode::Eval, 4));
    assert_eq!(bits(Mode::Train, 3), bits(Mode::Train, 3));
}

#[test]
fn a_spectral_bound_holds_and_a_loose_one_changes_nothing() {
    for (config, shape) in networks() {
        let plain = build(&config, &LayerPlan::dense());
        let loose = build(&config, &plan(SpectralBound(1e3)));
        let x = input(&shape);
        let forward = |built: &Built| built.network.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
        assert!(gap(&forward(&loose), &forward(&plain)) < 1e-6);
        assert!(gap(&forward(&build(&config, &plan(SpectralBound(0.3)))), &forward(&plain)) > 1e-4);
    }
    let config = boxed(MlpConfig { inputs: 5, hidden: vec![], outputs: 4, ..MlpConfig::default() });
    let built = build(&config, &plan(SpectralBound(0.3)));
    let at = |x: &Tensor| built.network.forward(x, &mut Pass::plain(Mode::Train)).unwrap().detach();
    (0..50).for_each(|_| _ = at(&input(&[2, 5]))); // the power iteration settles
    let zero = at(&Tensor::zeros([1, 5], (Kind::Float, Device::Cpu)));
    for key in 0..20 {
        let x = Key::new(key).normal(&[1, 5], Kind::Float, Device::Cpu);
        let stretch = (at(&x) - &zero).norm().double_value(&[]) / x.norm().double_value(&[]);
        assert!(stretch <= 0.3 * (1.0 + 1e-4), "{stretch}");
    }
}

#[test]
fn the_cost_counts_what_the_store_holds() {
    for (config, shape) in networks() {
        for (slot, _) in slots() {
            let plan = plan_of(slot.clone());
            let built = build(&config, &plan);
            let counted =
                cost(&trace(&config.network().unwrap(), &shape[1..]).unwrap(), &plan, Counting::Ours).unwrap();
            let trained: usize = built.store.trainable_variables().iter().map(Tensor::numel).sum();
            let stored: usize = built.store.variables().values().map(Tensor::numel).sum();
            assert_eq!(counted.parameters, trained as i64, "{slot:?}");
            assert_eq!(counted.parameters + counted.state, stored as i64, "{slot:?}");
        }
    }
}

#[test]
fn every_parameter_of_every_method_gets_a_gradient() {
    for (config, shape) in networks() {
        for (slot, members) in slots() {
            let built = build(&config, &plan_of(slot.clone()));
            let network = BatchEnsembleNetwork { network: built.network, members };
            let mut pass = noisy(Mode::Train, 5);
            let loss = network.forward(&input(&shape), &mut pass).unwrap().square().sum(Kind::Float);
            loss.backward();
            for (name, tensor) in built.store.variables().into_iter().filter(|(_, tensor)| tensor.requires_grad()) {
                let gradient = tensor.grad();
                assert!(gradient.defined() && gradient.isfinite().all().int64_value(&[]) == 1, "{slot:?} {name}");
            }
        }
    }
}

#[test]
fn an_sngp_head_is_sure_where_it_has_seen_data() {
    let config = MlpConfig { inputs: 2, hidden: vec![16], outputs: 3, ..MlpConfig::default() };
    let config = boxed(config);
    let plan = LayerPlan::dense().custom("fc2", SngpConfig { features: 64, ..SngpConfig::default() });
    let built = build(&config, &plan);
    let counted = cost(&trace(&config.network().unwrap(), &[2]).unwrap(), &plan, Counting::Ours).unwrap();
    let stored: usize = built.store.variables().values().map(Tensor::numel).sum();
    assert_eq!(counted.parameters + counted.state, stored as i64);
    let (near, far) = (input(&[50, 2]) * 0.1, input(&[50, 2]) * 30.0);
    let at = |x: &Tensor, mode: Mode| built.network.forward(x, &mut Pass::plain(mode)).unwrap().detach();
    // how much the variance shrinks the logits: 1 without variance
    let shrinks = |x: &Tensor| (at(x, Mode::Eval).norm() / at(x, Mode::Train).norm()).double_value(&[]);
    assert!((shrinks(&near) - 1.0).abs() < 1e-6); // nothing observed yet: plain logits
    let observe = |times: i64| {
        let slots = built.network.slots();
        let weight =
            slots.into_iter().find_map(|slot| if let Slot::Custom(weight) = slot { Some(weight) } else { None });
        let weight = weight.unwrap();
        let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&["fc2"]));
        let outputs = built.network.forward(&near, &mut pass).unwrap();
        let inputs = pass.taps.input("fc2").unwrap().detach().repeat([times, 1]);
        let targets = Tensor::zeros([inputs.size()[0]], (Kind::Int64, Device::Cpu));
        let curvature = categorical_curvature(&outputs.detach()).sum();
        weight.fit_posthoc(&FitData { inputs, targets, curvature, curvatures: None }).unwrap();
        (shrinks(&near), shrinks(&far))
    };
    let (once, often) = (observe(1), observe(20));
    assert!(once.0 > 1.5 * once.1, "{once:?}"); // surer near the data than far away
    assert!(often.0 > once.0, "{often:?} {once:?}"); // the variance on training points shrinks with data
}

#[test]
fn an_ensemble_stacks_its_members() {
    let (config, shape) = &networks()[0];
    let store = VarStore::new(Device::Cpu);
    let member = |k: i64| config.init(&(store.root() / k), &LayerPlan::dense(), Key::new(k as u64)).unwrap();
    let ensemble = Ensemble { networks: vec![member(0), member(1)] };
    let x = input(shape);
    let outputs = ensemble.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
    assert_eq!(ensemble.members(), 2);
    assert_eq!(outputs.narrow(0, 6, 6), ensemble.networks[1].forward(&x, &mut Pass::plain(Mode::Eval)).unwrap());
}

#[test]
fn settings_out_of_range_are_refused() {
    let config = &networks()[0].0;
    let wrong: Vec<Arc<dyn MakeWeight>> = vec![
        Arc::new(dropout(1.0)),
        Arc::new(MeanFieldConfig { init_sd: 0.2, ..MeanFieldConfig::default() }),
        Arc::new(batch_ensemble(0, 0.5)),
        Arc::new(SpectralBound(0.0)),
    ];
    for slot in wrong {
        let store = VarStore::new(Device::Cpu);
        assert!(config.init(&store.root(), &plan_of(slot.clone()), Key::new(1)).is_err(), "{slot:?}");
    }
}

/// What BatchEnsemble's ResNet-18 has by each choice its users make: none of them comes to the paper's 11.9 M.
#[test]
fn the_batch_ensemble_of_the_paper_cannot_be_counted_from_four_members() {
    let config = boxed(ResnetConfig::default());
    let geometry = trace(&config.network().unwrap(), &[3, 32, 32]).unwrap();
    let ours = cost(&geometry, &plan(batch_ensemble(4, 0.5)), Counting::Ours).unwrap().parameters;
    assert_eq!(ours, 11_257_452);
    let norms = geometry.iter().filter(|layer| layer.kind().is_none()).map(LayerGeometry::dense_parameters);
    assert_eq!(3 * norms.sum::<i64>(), 28_800); // BatchNorm of each member's own
    let extra = |layer: &LayerGeometry| match layer.operation {
        Operation::Conv(conv) => conv.in_channels * (conv.kernel[0] * conv.kernel[1] - 1),
        _ => 0,
    };
    assert_eq!(4 * geometry.iter().map(extra).sum::<i64>(), 108_640); // a factor for each entry of a kernel
    assert!(ours + 28_800 + 108_640 < 11_850_000);
}
