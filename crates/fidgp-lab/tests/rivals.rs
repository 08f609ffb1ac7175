//! What `fidgp ood` hears from the methods FiD-GP is compared with: their own draws, their own density, their own logits, and
//! of every image the same whatever stands beside it.

mod fixture;

use std::sync::LazyLock;

use fidgp::Key;
use fidgp::layer::{FitData, Mode, Pass, Slot, Taps};
use fidgp_data::ChannelStatistics;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::ood::{Given, ModelObserver, Observe, Observed, Scorer, Statistics, WeightChoice};
use fidgp_lab::predict::Trained;
use fidgp_lab::source::View;
use fidgp_zoo::methods::ddu::LOG_DENSITY;
use tch::{Device, Kind, Tensor};

use fixture::changed;

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "rival"
seed = 3
"#,
    )
});

static PIXELS: LazyLock<String> = LazyLock::new(|| changed(fixture::PIXELS, "seed = 3"));

const WIDTH: i64 = 32; // of the last layer's inputs

/// An untrained network of a method, as somebody would open it.
fn predictor(method: &str) -> Trained {
    tch::set_num_threads(1);
    let config = fixture::config(&CONFIG, &[&format!("method={method}")]);
    let (image, statistics) = ([3, 32, 32], ChannelStatistics { mean: vec![0.5; 3], sd: vec![0.25; 3] });
    let signature = Signature::Classification { image, classes: 10, statistics };
    let view = Some(View::of(&config.data, image));
    let model = Model::init(&config, &signature, Device::Cpu).unwrap();
    Trained { config, model, classes: fidgp_data::unnamed(10), view, table: None }
}

/// What a head concludes from training data: three classes of features.
fn settle(predictor: &Trained) {
    let shown = FitData {
        inputs: Key::new(7).normal(&[300, WIDTH], Kind::Float, Device::Cpu) + 1.0,
        targets: Tensor::from_slice(&(0..300).map(|i| i % 3).collect::<Vec<i64>>()),
        curvature: Tensor::eye(10, (Kind::Float, Device::Cpu)),
        curvatures: None,
    };
    for head in predictor.model.network.slots().into_iter().filter_map(Slot::custom) {
        if head.fit_phase().is_some() {
            head.fit_posthoc(&shown).unwrap();
        }
    }
}

fn pixels() -> Tensor {
    (Key::new(5).uniform(&[12, 3, 32, 32], Kind::Float, Device::Cpu) * 255.0).floor()
}

fn observer(predictor: &Trained) -> ModelObserver<'_> {
    ModelObserver::new(predictor, WeightChoice::Mean, 4, false).unwrap()
}

fn observed(predictor: &Trained, pixels: &Tensor) -> Observed {
    observer(predictor).observe(pixels).unwrap()
}

fn gap(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

/// Masks and processes are drawn as weights are: K networks, each the same for all images of all sets.
#[test]
fn draws_of_every_random_method_are_scored_and_do_not_depend_on_the_batch() {
    for method in ["mc-dropout", "svgp", "due", "mean-field", "laplace"] {
        let (predictor, pixels) = (predictor(method), pixels());
        let draws =
            |pixels: &Tensor| observed(&predictor, pixels).draws.unwrap_or_else(|| panic!("{method}: no draws"));
        let (total, mutual) = draws(&pixels);
        assert_eq!(draws(&pixels), (total.shallow_clone(), mutual.shallow_clone()), "{method}: drawn anew");
        let order = Tensor::from_slice(&[7_i64, 2, 11, 0, 5]);
        let (shuffled_total, shuffled_mutual) = draws(&pixels.index_select(0, &order));
        assert!(gap(&shuffled_total, &total.index_select(0, &order)) < 1e-5, "{method}");
        assert!(gap(&shuffled_mutual, &mutual.index_select(0, &order)) < 1e-5, "{method}");
        if method != "laplace" {
            // Laplace's deviations are nought until they are fitted
            let (least, spread) = (mutual.min().double_value(&[]), mutual.std(true).double_value(&[]));
            assert!(least > 0.0 && spread > 0.0, "{method}: {least} {spread}");
        }
    }
}

/// A picture's draws are means over its pixels, as its logits are; masks are one for all pictures there too.
#[test]
fn draws_of_a_segmentation_are_those_of_whole_pictures() {
    for method in ["mc-dropout", "mean-field"] {
        let config = fixture::config(&PIXELS, &[&format!("method={method}")]);
        let signature = Signature::expected(&config, None).unwrap();
        let model = Model::init(&config, &signature, Device::Cpu).unwrap();
        let predictor = Trained { config, model, classes: fidgp_data::unnamed(3), view: None, table: None };
        let seen = |pixels: &Tensor| observed(&predictor, pixels).draws.unwrap();
        let (total, mutual) = seen(&pixels());
        assert_eq!((total.size(), mutual.size()), (vec![12], vec![12]), "{method}");
        assert!(gap(&seen(&pixels().narrow(0, 4, 3)).0, &total.narrow(0, 4, 3)) < 1e-5, "{method}");
        assert!(mutual.min().double_value(&[]) > 0.0, "{method}");
    }
}

/// One answer is no draw, and a reader learns why there is a dash.
#[test]
fn networks_with_one_answer_have_no_draws() {
    for method in ["deterministic", "sngp", "ddu"] {
        assert!(observed(&predictor(method), &pixels()).draws.is_none(), "{method}");
    }
}

/// What a plain pass in evaluation gives, which for SNGP are logits divided by √(1 + λ·φᵀΛ⁻¹φ).
#[test]
fn sngp_is_scored_by_its_mean_field_logits() {
    let (predictor, pixels) = (predictor("sngp"), pixels());
    settle(&predictor);
    let x = predictor.model.normalisation.as_ref().unwrap().apply(&pixels);
    let logits = |mean_field: bool| {
        let network = &predictor.model.network;
        let head = network.head().unwrap();
        let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[head]));
        let mut h = tch::no_grad(|| network.forward(&x, &mut pass)).unwrap();
        if !mean_field {
            let features = pass.taps.input(head).unwrap();
            let weight = network.custom().pop().unwrap(); // the head alone
            h = weight.forward(features, &mut Pass::plain(Mode::Train), &|x, _, _, _| Ok(x.shallow_clone())).unwrap();
        }
        h.to_kind(Kind::Double)
    };
    let seen = observed(&predictor, &pixels).logits;
    assert!(gap(&seen, &logits(true)) < 1e-6);
    assert!(gap(&seen, &logits(false)) > 1e-3);
}

/// The registered scores, fitted.
fn fitted(kept: &Statistics, first: &Observed) -> Scorer {
    Scorer::fit(&Given { kept, first, head: None, inducing: &[], key: Key::new(1) }, &[]).unwrap()
}

/// The score of a DDU network is the density that `fidgp predict` prints: of its own Gaussians, not of others fitted to
/// fewer images.
#[test]
fn ddu_is_scored_by_its_own_gaussians() {
    let (predictor, pixels) = (predictor("ddu"), pixels());
    settle(&predictor);
    let seen = observed(&predictor, &pixels);
    let labels = (0..12).map(|i| i % 2).collect();
    let kept =
        Statistics { labels, features: seen.features.as_ref().map(Tensor::shallow_clone), ..Statistics::default() };
    let scorer = fitted(&kept, &seen);
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
    let x = predictor.model.normalisation.as_ref().unwrap().apply(&pixels);
    let _ = tch::no_grad(|| predictor.model.network.forward(&x, &mut pass)).unwrap();
    let own = Vec::<f64>::try_from(pass.taps.feature(LOG_DENSITY).unwrap()).unwrap();
    let score = &scorer.score(&seen).unwrap()["ddu"];
    for (score, own) in score.iter().zip(&own) {
        assert!((score + own).abs() < 1e-6 * own.abs(), "{score} {own}");
    }
}

/// Of the images that others' Gaussians are fitted on, some classes may have none.
#[test]
fn a_class_without_images_costs_no_score() {
    let features = Key::new(2).normal(&[30, 4], Kind::Double, Device::Cpu);
    let logits = Key::new(3).normal(&[30, 10], Kind::Double, Device::Cpu);
    let seen = Observed { logits, features: Some(features.shallow_clone()), ..Observed::default() };
    let ddu = |labels: [i64; 3]| {
        let labels = (0..30).map(|i| labels[i % 3]).collect();
        let kept = Statistics { labels, features: Some(features.shallow_clone()), ..Statistics::default() };
        let scorer = fitted(&kept, &seen);
        scorer.score(&seen).unwrap().remove("ddu")
    };
    assert!(ddu([0, 1, 2]).is_some());
    assert_eq!(ddu([0, 4, 9]), ddu([0, 1, 2]));
}
