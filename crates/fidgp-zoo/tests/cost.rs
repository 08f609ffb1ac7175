//! Counts held against published numbers, against exact integers from independent implementations, and against tensors.

use fidgp::Key;
use fidgp::conditional::{Conditional, NoiseOn};
use fidgp::flow::FlowConfig;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::{InducingConfig, Order};
use fidgp_zoo::plan::PAPER_FOUR;
use fidgp_zoo::{Cost, Counting, Depth, LayerKind, LayerPlan, ResnetConfig, cost, trace};
use tch::nn::VarStore;
use tch::{Device, Tensor};

fn sized(m: i64, posterior: PosteriorConfig) -> LayerPlan {
    let config = InducingConfig { inducing_rows: m.into(), inducing_cols: m.into(), posterior, ..Default::default() };
    LayerPlan::all(config).kind_size(LayerKind::Linear, 100, 128)
}

fn fidgp(m: i64) -> LayerPlan {
    sized(m, PosteriorConfig::Flow { flow: FlowConfig::default() })
}

fn four(conditional: Conditional) -> LayerPlan {
    LayerPlan::only(&PAPER_FOUR, &InducingConfig { conditional, ..Default::default() })
}

fn cifar(classes: i64, plan: &LayerPlan) -> Cost {
    cost(&trace(&ResnetConfig::cifar(classes).network().unwrap(), &[3, 32, 32]).unwrap(), plan, Counting::Compat)
        .unwrap()
}

fn imagenet(plan: &LayerPlan) -> Cost {
    cost(&trace(&ResnetConfig::imagenet().network().unwrap(), &[3, 224, 224]).unwrap(), plan, Counting::Compat).unwrap()
}

#[test]
fn deterministic_parameters_and_macs() {
    let dense = LayerPlan::dense();
    assert_eq!(cifar(100, &dense).parameters, 11_220_132);
    assert_eq!(cifar(10, &dense).parameters, 11_173_962);
    assert_eq!(imagenet(&dense).parameters, 11_689_512);
    assert_eq!(cifar(100, &dense).macs, 555_468_800);
    assert_eq!(cifar(10, &dense).macs, 555_422_720);
    assert_eq!(imagenet(&dense).macs, 1_814_073_344);
    let resnet50 = ResnetConfig { depth: Depth::D50, ..ResnetConfig::imagenet() };
    let resnet50 = trace(&resnet50.network().unwrap(), &[3, 224, 224]).unwrap();
    assert_eq!(cost(&resnet50, &dense, Counting::Ours).unwrap().macs, 4_089_184_256);
    assert_eq!(cifar(100, &dense).flops_paper, 2 * 555_468_800);
}

#[test]
fn fidgp_parameters_of_the_released_code() {
    // The linear layer keeps 100×128 in every row of the ablation: only so do the four counts come out exactly.
    for (m, parameters) in [(32, 1_354_637), (64, 2_657_773), (128, 5_509_805), (256, 12_196_909)] {
        assert_eq!(cifar(100, &fidgp(m)).parameters, parameters, "M = {m}");
    }
    assert_eq!(cifar(100, &four(Conditional::Matheron)).parameters, 8_008_168);
    assert_eq!(imagenet(&fidgp(128)).parameters, 5_615_165);
    assert_eq!(imagenet(&four(Conditional::Matheron)).parameters, 8_477_548);
}

#[test]
fn ffgu_parameters() {
    for (m, parameters) in [(32, 1_299_049), (64, 2_568_905), (128, 5_354_377), (256, 11_908_361)] {
        assert_eq!(cifar(100, &sized(m, PosteriorConfig::Diagonal)).parameters, parameters, "M = {m}");
    }
}

#[test]
fn flops_by_the_papers_formula() {
    let giga = |flops: i64| format!("{:.2}", flops as f64 / 1e9);
    assert_eq!(giga(cifar(100, &four(Conditional::Matheron)).flops_paper), "5.56");
    assert_eq!(giga(imagenet(&four(Conditional::Reparam)).flops_paper), "4.99");
    assert_eq!(giga(imagenet(&sized(128, PosteriorConfig::Diagonal)).flops_paper), "14.66");
    let all = cifar(100, &fidgp(128));
    assert!(all.flops_ours < all.flops_paper, "{} {}", all.flops_ours, all.flops_paper);
}

#[test]
fn our_counts_are_what_the_store_holds() {
    let families = [
        PosteriorConfig::Diagonal,
        PosteriorConfig::MatrixNormal,
        PosteriorConfig::Full,
        PosteriorConfig::Ensemble { members: 3 },
        PosteriorConfig::Flow { flow: FlowConfig::default() },
        PosteriorConfig::Flow { flow: FlowConfig::compat() },
    ];
    for (posterior, learn_lamda) in families.into_iter().zip([true, false].into_iter().cycle()) {
        let inducing = InducingConfig {
            inducing_rows: 6.into(),
            inducing_cols: 8.into(),
            posterior,
            learn_lamda,
            ..Default::default()
        };
        let plan = LayerPlan::all(inducing).size("layer1.*", 3, 9).dense_layers("layer3.*");
        let config = ResnetConfig { width: 4, classes: 5, ..ResnetConfig::default() };
        let store = VarStore::new(Device::Cpu);
        config.init(&store.root(), &plan, Key::new(0)).unwrap();
        let counted = cost(&trace(&config.network().unwrap(), &[3, 32, 32]).unwrap(), &plan, Counting::Ours).unwrap();
        let trained: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
        let stored: usize = store.variables().values().map(Tensor::numel).sum();
        assert_eq!((counted.parameters, counted.bytes_f32), (trained as i64, 4 * stored as i64), "{plan:?}");
    }
}

#[test]
fn the_table_shows_every_layer_and_the_totals() {
    let text = cifar(100, &fidgp(128)).to_string();
    for part in ["layer2.0.downsample.0", "conv 1x1 64>128 /2", "128x128", "linear 512>100", "5,509,805", "555,468,800"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

/// The order that is explained is the one whose work is counted, and the cheaper one wherever there is a choice.
#[test]
fn explained_orders_are_those_that_are_counted() {
    let config = InducingConfig { conditional: Conditional::Reparam, noise: NoiseOn::Outputs, ..Default::default() };
    let plans = [LayerPlan::all(config), four(Conditional::Matheron), four(Conditional::Reparam)];
    let mut seen = Vec::new();
    for plan in plans {
        let counted =
            cost(&trace(&ResnetConfig::cifar(100).network().unwrap(), &[3, 32, 32]).unwrap(), &plan, Counting::Ours)
                .unwrap();
        for layer in counted.layers.iter().filter(|layer| layer.draw.is_some()) {
            let orders = layer.orders.unwrap();
            let work = orders.taken();
            assert_eq!((work.draw, work.input), (layer.draw.unwrap().ours.mean, layer.macs_ours), "{}", layer.name);
            assert!(work.input <= orders.built.input.min(orders.factored.input), "{}: {orders:?}", layer.name);
            seen.push(orders.order);
        }
    }
    assert!([Order::BuiltForNoise, Order::BuiltForCost, Order::Factored].iter().all(|order| seen.contains(order)));
}

/// bayesianize: `inducing_mean` of an ensemble is `[members, R, C]` and all there is; a triangle is stored without zeros.
#[test]
fn posteriors_of_the_released_code_have_its_parameters() {
    let plan = |posterior| {
        LayerPlan::only(
            &["fc"],
            &InducingConfig { inducing_rows: 4.into(), inducing_cols: 8.into(), posterior, ..Default::default() },
        )
    };
    let parameters = |posterior| cifar(10, &plan(posterior)).parameters;
    let diagonal = parameters(PosteriorConfig::Diagonal); // 2·32
    assert_eq!(parameters(PosteriorConfig::Ensemble { members: 5 }) - diagonal, 5 * 32 - 2 * 32);
    assert_eq!(parameters(PosteriorConfig::MatrixNormal) - diagonal, 32 + 10 + 36 - 2 * 32);
    assert_eq!(parameters(PosteriorConfig::Full) - diagonal, 32 + 32 * 33 / 2 - 2 * 32);
}

#[test]
fn layers_add_up_to_the_whole() {
    let whole = cifar(10, &fidgp(64));
    let sum = |part: fn(&fidgp_zoo::LayerCost) -> i64| whole.layers.iter().map(part).sum::<i64>();
    assert_eq!((sum(|l| l.flops_paper), sum(|l| l.flops_ours)), (whole.flops_paper, whole.flops_ours));
    assert_eq!((sum(|l| l.bytes_f32), sum(|l| l.bytes_f16)), (4 * (whole.parameters + whole.state), whole.bytes_f16));
    let head = whole.layers.iter().find(|layer| layer.name == "fc").unwrap();
    assert_eq!(head.bytes_f32, 4 * (head.parameters + head.state));
    assert_eq!(head.flops_paper, 2 * (head.macs + head.draw.unwrap().paper.total()));
}
