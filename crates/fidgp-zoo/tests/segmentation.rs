//! The segmentation networks: counts of METHOD's table to the last digit, names, sizes, and the parts a draw does not touch.

use fidgp::Key;
use fidgp::flow::FlowConfig;
use fidgp::layer::{Mode, Network, Pass, blocks_before_randomness, trace_on};
use fidgp::posterior::PosteriorConfig;
use fidgp::predict::{Draws, segment};
use fidgp::weight::InducingConfig;
use fidgp_zoo::fcn::PAPER_FOUR_FCN;
use fidgp_zoo::hrnet::OUR_FOUR_HRNET;
use fidgp_zoo::methods::mc_dropout::DropoutConfig;
use fidgp_zoo::{
    Architecture, Cost, Counting, Depth, FcnConfig, HrnetConfig, LayerPlan, ResnetCifarConfig, ResnetConfig,
    bayesianise, cost, trace,
};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn boxed(network: impl Architecture + 'static) -> Box<dyn Architecture> {
    Box::new(network)
}

fn paper(posterior: PosteriorConfig) -> InducingConfig {
    InducingConfig { posterior, ..Default::default() }
}

fn flow() -> PosteriorConfig {
    PosteriorConfig::Flow { flow: FlowConfig::default() }
}

fn fcn(plan: &LayerPlan) -> Cost {
    let config = FcnConfig { outputs: Some(12), aux_outputs: Some(21), ..FcnConfig::default() };
    cost(&trace(&config.network().unwrap(), &[3, 320, 320]).unwrap(), plan, Counting::Compat).unwrap()
}

fn hrnet(plan: &LayerPlan, input: [i64; 2]) -> Cost {
    cost(&trace(&HrnetConfig::default().network().unwrap(), &[3, input[0], input[1]]).unwrap(), plan, Counting::Compat)
        .unwrap()
}

#[test]
fn fcn_counts_of_the_paper() {
    let dense = LayerPlan::dense();
    assert_eq!(fcn(&dense).parameters, 35_317_601);
    let coco = trace(&FcnConfig::default().network().unwrap(), &[3, 320, 320]).unwrap();
    assert_eq!(cost(&coco, &dense, Counting::Ours).unwrap().parameters, 35_322_218);
    assert_eq!(fcn(&dense).macs, 57_826_099_200);
    assert_eq!(fcn(&LayerPlan::all(paper(PosteriorConfig::Diagonal))).parameters, 15_845_817);
    assert_eq!(fcn(&LayerPlan::all(paper(flow()))).parameters, 16_288_137);
    assert_eq!(fcn(&LayerPlan::only(&PAPER_FOUR_FCN, &paper(flow()))).parameters, 32_695_461);
}

#[test]
fn hrnet_counts_of_the_paper() {
    let dense = LayerPlan::dense();
    assert_eq!(hrnet(&dense, [512, 1024]).parameters, 65_859_379);
    assert_eq!(hrnet(&dense, [512, 1024]).macs, 186_878_263_296);
    assert_eq!(hrnet(&dense, [1024, 2048]).macs, 747_513_053_184);
    assert_eq!(hrnet(&LayerPlan::all(paper(PosteriorConfig::Diagonal)), [512, 1024]).parameters, 55_646_803);
    assert_eq!(hrnet(&LayerPlan::all(paper(flow())), [512, 1024]).parameters, 58_029_123);
    let four = LayerPlan::only(&OUR_FOUR_HRNET, &paper(flow()));
    assert!(bayesianise(&mut HrnetConfig::default().network().unwrap(), &four).is_ok());
}

/// Wherever the first random layer stands, the blocks before it are those in front of its own: a stem, a residual block and all
/// branches of an HRNet are one each. A prediction asks in evaluation, costs in training: both must say the same.
#[test]
fn blocks_before_randomness_are_those_in_front_of_it() {
    let networks = [
        boxed(ResnetConfig { width: 4, ..ResnetConfig::default() }),
        boxed(ResnetCifarConfig { depth: 14, ..ResnetCifarConfig::default() }),
        boxed(FcnConfig { depth: Depth::D18, width: 4, outputs: Some(3), ..FcnConfig::default() }),
        boxed(HrnetConfig { width: 4, outputs: 3, ..HrnetConfig::default() }),
    ];
    let block_of = |layer: &str| {
        let inner = layer.strip_prefix("backbone.").unwrap_or(layer);
        let group = inner.split('.').next().unwrap().to_owned();
        match inner.match_indices('.').nth(1) {
            _ if group.starts_with("stage") || group.starts_with("transition") => "branches".to_owned(),
            _ if matches!(&group[..], "conv1" | "conv2" | "bn1" | "bn2") => "stem".to_owned(),
            Some((end, _)) if group.starts_with("layer") => inner[..end].to_owned(),
            _ => group,
        }
    };
    for network in networks {
        let layers = trace(&network.network().unwrap(), &[3, 32, 32]).unwrap();
        let mut blocks: Vec<_> = layers.iter().map(|layer| block_of(&layer.name)).collect();
        blocks.dedup();
        let weights: Vec<_> = layers.iter().filter(|layer| layer.kind().is_some() && !layer.training_only).collect();
        let (first, last) = (weights.iter().take(3), weights.iter().rev().take(3));
        for layer in weights.iter().step_by(weights.len().div_ceil(20)).chain(first).chain(last) {
            let dropped = DropoutConfig { rate: 0.5, ..DropoutConfig::default() };
            let mut built = network.network().unwrap();
            bayesianise(&mut built, &LayerPlan::dense().custom(&layer.name, dropped)).unwrap();
            let place = blocks.iter().position(|block| *block == block_of(&layer.name)).unwrap();
            let x = Tensor::zeros([1, 3, 32, 32], (Kind::Float, Device::Cpu));
            for mode in [Mode::Train, Mode::Eval] {
                let seen = blocks_before_randomness(&trace_on(&built, &x, mode).unwrap());
                assert_eq!(seen, place, "{}: {blocks:?}", layer.name);
            }
        }
    }
}

/// Three quarters of FCN-ResNet50 stand at or behind `layer3.5.conv1`: what K draws cost at least.
#[test]
fn floor_of_eight_draws() {
    let config = FcnConfig { outputs: Some(12), aux_outputs: Some(0), ..FcnConfig::default() };
    let layers = trace(&config.network().unwrap(), &[3, 320, 320]).unwrap();
    let macs = |part: &[fidgp_zoo::LayerGeometry]| part.iter().map(fidgp_zoo::LayerGeometry::macs).sum::<i64>() as f64;
    let floor = |from: &str| {
        let first = layers.iter().position(|layer| layer.name.starts_with(from)).unwrap();
        let behind = macs(&layers[first..]) / macs(&layers);
        1.0 + 7.0 * behind
    };
    let (four, two) = (floor("backbone.layer3.5"), floor("backbone.layer4.1"));
    println!("floors: {four:.3} {two:.3}");
    assert!((four - 6.3).abs() < 0.05, "{four}");
    assert!((two - 4.85).abs() < 0.05, "{two}");
}

fn store_holds(network: &[fidgp_zoo::LayerGeometry], plan: &LayerPlan, store: &VarStore) {
    let counted = cost(network, plan, Counting::Ours).unwrap();
    let trained: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
    let stored: usize = store.variables().values().map(Tensor::numel).sum();
    assert_eq!((counted.parameters, counted.bytes_f32), (trained as i64, 4 * stored as i64));
    for layer in network {
        let within = |name: &String| name.starts_with(&format!("{}.", layer.name));
        assert!(store.variables().keys().any(within), "{} has no variable", layer.name);
    }
}

fn small() -> InducingConfig {
    InducingConfig {
        inducing_rows: 4.into(),
        inducing_cols: 4.into(),
        posterior: PosteriorConfig::Diagonal,
        ..Default::default()
    }
}

#[test]
fn what_is_built_is_what_is_counted_and_outputs_have_their_size() {
    let plan = LayerPlan::all(small());
    let fcn = FcnConfig { depth: Depth::D50, width: 4, outputs: Some(5), aux_outputs: Some(3), channels: 3 };
    let store = VarStore::new(Device::Cpu);
    let network = fcn.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap();
    store_holds(&trace(&fcn.network().unwrap(), &[3, 64, 64]).unwrap(), &LayerPlan::dense(), &store);
    let x = Key::new(2).normal(&[2, 3, 50, 70], Kind::Float, Device::Cpu);
    let eval = network.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
    assert_eq!(eval.size(), [2, 5, 7, 9]);
    assert_eq!(network.forward(&x, &mut Pass::plain(Mode::Train)).unwrap().size(), [2, 5 + 3, 7, 9]);
    let last = trace(&fcn.network().unwrap(), &[3, 50, 70])
        .unwrap()
        .into_iter()
        .find(|layer| layer.name == "classifier.4")
        .unwrap();
    assert_eq!(last.output, [7, 9]);
    let hrnet = HrnetConfig { width: 2, outputs: 4, channels: 3 };
    let store = VarStore::new(Device::Cpu);
    let network = hrnet.init(&store.root(), &plan, Key::new(1)).unwrap();
    store_holds(&trace(&hrnet.network().unwrap(), &[3, 64, 64]).unwrap(), &plan, &store);
    let draws = Draws::new(&network, 1, Key::new(3)).unwrap();
    draws
        .outputs(&[x], |_, outputs| {
            assert_eq!(outputs.size(), [2, 4, 13, 18]);
            Ok(())
        })
        .unwrap();
}

/// Names are torchvision's and the released HRNet's, so that their files fit without renaming.
#[test]
fn names() {
    let has = |layers: Vec<fidgp_zoo::LayerGeometry>, names: &[&str]| {
        for name in names {
            assert!(layers.iter().any(|layer| layer.name == *name), "{name}");
        }
    };
    let fcn =
        ["backbone.conv1", "backbone.bn1", "backbone.layer4.2.conv3", "classifier.0", "classifier.1", "classifier.4"];
    has(trace(&FcnConfig::default().network().unwrap(), &[3, 64, 64]).unwrap(), &fcn);
    has(
        trace(&FcnConfig::default().network().unwrap(), &[3, 64, 64]).unwrap(),
        &["aux_classifier.4", "backbone.layer3.0.downsample.0"],
    );
    let hrnet = [
        "conv2",
        "layer1.0.downsample.0",
        "transition1.0.0",
        "transition1.1.0.0",
        "transition3.3.0.1",
        "stage2.0.branches.1.3.conv2",
        "stage3.3.fuse_layers.0.2.1",
        "stage4.2.fuse_layers.3.0.2.0",
        "last_layer.0",
        "last_layer.1",
        "last_layer.3",
    ];
    has(trace(&HrnetConfig::default().network().unwrap(), &[3, 64, 64]).unwrap(), &hrnet);
}

#[test]
fn blocks_before_the_papers_layers() {
    let fcn = FcnConfig { width: 4, outputs: Some(3), aux_outputs: Some(3), ..FcnConfig::default() };
    let first = |layers: &[&str]| {
        let plan = LayerPlan::only(layers, &small());
        let mut network = fcn.network().unwrap();
        bayesianise(&mut network, &plan).unwrap();
        blocks_before_randomness(&trace(&network, &[3, 64, 64]).unwrap())
    };
    assert_eq!(first(&PAPER_FOUR_FCN), 3 + 4 + 6);
    assert_eq!(first(&["backbone.layer4.1.conv1"]), 3 + 4 + 6 + 2);
    assert_eq!(first(&["backbone.conv1"]), 0);
    let hrnet = HrnetConfig { width: 2, outputs: 3, channels: 3 };
    let first = |layers: &[&str]| {
        let plan = LayerPlan::only(layers, &small());
        let mut network = hrnet.network().unwrap();
        bayesianise(&mut network, &plan).unwrap();
        blocks_before_randomness(&trace(&network, &[3, 64, 64]).unwrap())
    };
    assert_eq!(first(&OUR_FOUR_HRNET), 4);
    assert_eq!(first(&["stage4.*"]), 5);
    assert_eq!(first(&["last_layer.*"]), 6);
}

fn drawn_fcn(store: &VarStore, layers: &[&str]) -> fidgp_zoo::Fcn {
    let config = FcnConfig { depth: Depth::D18, width: 4, outputs: Some(5), aux_outputs: Some(4), channels: 3 };
    let inducing = InducingConfig { init_sd_u: 0.09, init_lamda: 0.02, ..small() };
    config.init(&store.root(), &LayerPlan::only(layers, &inducing), Key::new(7)).unwrap()
}

/// Sums over draws that come one by one are those of all draws at once, whatever was computed before the first of them.
#[test]
fn streamed_is_stacked() {
    let store = VarStore::new(Device::Cpu);
    let network = drawn_fcn(&store, &["backbone.layer3.1.conv1", "backbone.layer4.1.conv2"]);
    let x = Key::new(8).normal(&[2, 3, 40, 56], Kind::Float, Device::Cpu);
    let (key, classes) = (Key::new(9), 4);
    let found = segment(&Draws::new(&network, 3, key).unwrap(), &x, classes, None).unwrap();
    let weights = network.inducing();
    let factors = fidgp::layer::Factors::of(&weights, fidgp::linalg::Check::Now).unwrap();
    let whole = |k: u64| {
        let mut pass = Pass::draw(&weights, &factors, Mode::Eval, key.at(k)).unwrap();
        let logits = network.forward(&x, &mut pass).unwrap().narrow(1, 0, classes);
        logits.upsample_bilinear2d([40, 56], false, None, None).softmax(1, Kind::Float)
    };
    let all = tch::no_grad(|| Tensor::stack(&[whole(0), whole(1), whole(2)], 0)); // [K, N, classes, H, W]
    let entropy = |p: &Tensor, axis: i64| -(p * p.log()).sum_dim_intlist(axis, false, Kind::Float);
    let mean = all.mean_dim(0, false, Kind::Float);
    let close = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]) < 1e-5;
    assert!(close(&found.probs, &mean));
    assert!(close(&found.total, &entropy(&mean, 1)));
    assert!(close(&found.aleatoric, &entropy(&all, 2).mean_dim(0, false, Kind::Float)));
    assert!(close(&found.epistemic, &(&found.total - &found.aleatoric)));
    assert!(found.epistemic.max().double_value(&[]) > 1e-4, "draws differ");
}

/// A network without random weights has no epistemic uncertainty, however its windows disagree; a window as large as the
/// image changes nothing.
#[test]
fn windows_are_not_draws() {
    let store = VarStore::new(Device::Cpu);
    let network = drawn_fcn(&store, &[]);
    let x = Key::new(8).normal(&[1, 3, 64, 80], Kind::Float, Device::Cpu);
    let draws = Draws::new(&network, 4, Key::new(9)).unwrap();
    let whole = segment(&draws, &x, 5, None).unwrap();
    let same = segment(&draws, &x, 5, Some([100, 80])).unwrap();
    assert_eq!(whole.probs, same.probs);
    let cut = segment(&draws, &x, 5, Some([40, 48])).unwrap();
    assert!((cut.probs.sum_dim_intlist(1, false, Kind::Float) - 1.0).abs().max().double_value(&[]) < 1e-5);
    assert!((&cut.probs - &whole.probs).abs().max().double_value(&[]) > 1e-6, "windows see less");
    assert!(cut.epistemic.max().double_value(&[]) < 1e-5);
    assert!(segment(&draws, &x, 6, None).unwrap_err().to_string().contains("at least 6"));
}
