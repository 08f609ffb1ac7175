//! What predicts owns what it needs, says what an evaluation says, and forgets what it was asked before.

mod fixture;

use std::sync::{Arc, LazyLock, Mutex};

use fidgp::Key;
use fidgp::layer::{Curvature, Network};
use fidgp::linearised::{FitConfig, LinearisedPosterior, Observed, fit};
use fidgp::objective::NumberLikelihood;
use fidgp::predict::{
    Batch, Classified, Effort, PredictiveLaw, Regressed, Spent, WeightDraws, classify, regress, segment,
};
use fidgp_data::ChannelStatistics;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::ood::{ModelObserver, Observe, WeightChoice};
use fidgp_lab::predict::{ClassPrediction, Inputs, PixelPrediction, Predictions, Predictor, Trained};
use fidgp_lab::source::View;
use tch::{Device, Kind, Tensor};

use fixture::changed;

static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "pictures"
method = "fidgp"
seed = 3
predict.draws = 3
[inducing]
layers = ["layer2.1.conv1", "layer4.1.conv2"]
inducing_rows = 4
inducing_cols = 4
init_lamda = 0.2
max_lamda = 1.0
"#,
    )
});

static CURVE: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
method = "fidgp"
seed = 3
data = { validation = 5, train = 20 }
inducing = { inducing_rows = 4, inducing_cols = 4 }
network = { hidden = [8, 8], batch_norm = false }
train = { epochs = 1, batch_size = 20 }
predict.draws = 5
"#,
    )
});

static PIXELS: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::PIXELS,
        r#"
method = "fidgp"
seed = 3
inducing = { layers = ["backbone.layer4.1.conv2"], inducing_rows = 4, inducing_cols = 4 }
predict = { draws = 2, window = [24, 32] }
"#,
    )
});

/// An untrained network, as somebody would open it.
fn trained(config: &str, changes: &[&str]) -> Trained {
    tch::set_num_threads(1);
    let config = fixture::config(config, changes);
    let statistics = ChannelStatistics { mean: vec![0.5; 3], sd: vec![0.25; 3] };
    let (signature, classes, view) = match config.data.name().as_str() {
        "cifar10" => {
            let image = [3, 32, 32];
            let view = Some(View::of(&config.data, image));
            (Signature::Classification { image, classes: 10, statistics }, 10, view)
        }
        "shapes" => (Signature::Segmentation { crop: [32, 32], classes: 3, statistics }, 3, None),
        _ => (Signature::Regression { features: 1 }, 0, None),
    };
    let model = Model::init(&config, &signature, Device::Cpu).unwrap();
    Trained { config, model, classes: fidgp_data::unnamed(classes), view, table: None }
}

fn predictor(config: &str, changes: &[&str]) -> Predictor {
    Predictor::new(trained(config, changes), None, WeightDraws::MEMORY).unwrap()
}

fn pictures(count: i64) -> Tensor {
    (Key::new(5).uniform(&[count, 3, 32, 32], Kind::Float, Device::Cpu) * 255.0).floor()
}

fn key() -> Key {
    Key::new(3).fold("predict") // the seed of the configs
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.to_kind(Kind::Double).reshape([-1])).unwrap()
}

/// 70 pictures are two batches; the second alone is what it is behind the first, also where layers draw noise on their outputs.
#[test]
fn pictures_are_classified_as_an_evaluation_does() {
    for changes in [&[][..], &["inducing.conditional=reparam", "inducing.noise=outputs"], &["method=mc-dropout"]] {
        let model = trained(&IMAGES, changes).model;
        let pixels = pictures(70);
        let x = model.normalisation.as_ref().unwrap().apply(&pixels);
        let expected = classify(&model.draws(3, key()).unwrap(), &x.split(64, 0), None).unwrap();
        let mut predictor = predictor(&IMAGES, changes);
        let mut ask = |pixels: &Tensor, first| predictor.classify(pixels, first, Effort::default()).unwrap();
        let said = ask(&pixels, 0);
        let probabilities: Vec<f64> = said.iter().flat_map(|said| said.probabilities.clone()).collect();
        assert_eq!(probabilities, numbers(&expected.probs), "{changes:?}");
        assert_eq!(said.iter().map(|said| said.epistemic).collect::<Vec<_>>(), numbers(&expected.epistemic));
        assert!(said.iter().all(|said| said.draws == 3 && said.error.is_none()));
        assert!(said[0].epistemic > 1e-6, "{changes:?}: {:?}", said[0]);
        assert_eq!(ask(&pixels.narrow(0, 64, 6), 1), said[64..], "{changes:?}");
        assert_eq!(ask(&pixels, 0), said, "{changes:?}: depends on what was asked before");
    }
}

#[test]
fn a_tolerance_is_met_and_its_draws_are_told() {
    let mut predictor = predictor(&IMAGES, &[]);
    let mut ask = |draws, tolerance| predictor.classify(&pictures(4), 0, Effort { draws, tolerance }).unwrap();
    let exact = ask(Some(40), Some(1e-9));
    assert!(exact[0].draws == 40 && exact[0].error.unwrap() > 1e-9);
    let error = exact[0].error.unwrap();
    let loose = ask(Some(40), Some(error * 2.0));
    assert!(loose[0].draws < 40 && loose[0].error.unwrap() <= error * 2.0, "{:?}", loose[0]);
    assert_eq!(loose, {
        let plain = ask(Some(loose[0].draws), None);
        let with_error = |said: ClassPrediction| ClassPrediction { error: loose[0].error, ..said };
        plain.into_iter().map(with_error).collect::<Vec<_>>()
    });
}

/// A server's threads share one predictor.
#[test]
fn threads_share_a_predictor() {
    let shared = Arc::new(Mutex::new(predictor(&IMAGES, &[])));
    let ask = |shared: &Mutex<Predictor>| shared.lock().unwrap().classify(&pictures(2), 0, Effort::default()).unwrap();
    let here = ask(&shared);
    let others: Vec<_> = (0..3)
        .map(|_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || ask(&shared))
        })
        .collect();
    for other in others {
        assert_eq!(other.join().unwrap(), here);
    }
}

#[test]
fn rows_are_predicted_as_an_evaluation_does() {
    let model = trained(&CURVE, &[]).model;
    let likelihood = model.likelihood.reading().numbers().expect("a curve is a regression");
    let rows: Vec<f64> = (0..30).map(|i| f64::from(i) / 10.0).collect();
    let x = Tensor::from_slice(&rows).to_kind(Kind::Float).view([-1, 1]);
    let predict = trained(&CURVE, &[]).config.predict;
    let batches = x.split(predict.batch_size as i64, 0);
    let expected = regress(&model.draws(5, key()).unwrap(), likelihood, &batches).unwrap();
    let mut predictor = predictor(&CURVE, &[]);
    let Predictions::Numbers(said) = predictor.predict(&Inputs::Rows(rows), Effort::default()).unwrap() else {
        panic!("a curve is of numbers")
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    for (said, mean) in said.iter().zip(numbers(&expected.mean())) {
        close(said.mean, mean);
        close(said.noise_sd, 0.1);
    }
    for (said, variance) in said.iter().zip(numbers(&expected.epistemic())) {
        close(said.epistemic_sd, variance.sqrt());
    }
    assert!(said.iter().any(|said| said.epistemic_sd > 0.0));
}

#[test]
fn pixels_are_predicted_as_an_evaluation_does() {
    let model = trained(&PIXELS, &[]).model;
    let pixels = pictures(2).narrow(2, 0, 28).contiguous(); // of another height than the crop: two windows
    let x = model.normalisation.as_ref().unwrap().apply(&pixels);
    let expected = segment(&model.draws(2, key()).unwrap(), &x, 3, Some([24, 32])).unwrap();
    let mut predictor = predictor(&PIXELS, &[]);
    for _ in 0..2 {
        let found = predictor.predict(&Inputs::Pixels(pixels.shallow_clone()), Effort::default()).unwrap();
        let Predictions::Pixels(found) = found else { panic!("a segmentation is of pixels") };
        assert_eq!((&found.probs, &found.epistemic), (&expected.probs, &expected.epistemic));
        let said = PixelPrediction::of(&pixels.get(1), &found, 1).unwrap();
        assert!((said.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12 && said.total > 0.0);
    }
}

/// The features are those that the OoD scores see.
#[test]
fn features_are_those_at_the_posterior_mean() {
    let mut predictor = predictor(&IMAGES, &[]);
    let features = predictor.features(&pictures(3)).unwrap();
    assert_eq!(predictor.features(&pictures(3)).unwrap(), features);
    let observer = ModelObserver::new(predictor.trained(), WeightChoice::Mean, 0, false).unwrap();
    let seen = observer.observe(&pictures(3)).unwrap().features.unwrap();
    let gap = (seen - features.to_kind(Kind::Double)).abs().max().double_value(&[]);
    assert!(gap < 1e-5, "{gap}");
}

#[test]
fn inputs_that_the_model_does_not_take_are_refused() {
    let said = |predictor: &mut Predictor, inputs: Inputs| {
        predictor.predict(&inputs, Effort::default()).map(|_| ()).unwrap_err().to_string()
    };
    let mut classes = predictor(&IMAGES, &[]);
    let error = said(&mut classes, Inputs::Pixels(Tensor::zeros([2, 3, 30, 32], (Kind::Float, Device::Cpu))));
    assert!(error.contains("[2, 3, 30, 32]") && error.contains("[N, 3, 32, 32]"), "{error}");
    assert!(said(&mut classes, Inputs::Rows(vec![1.0])).contains("takes pictures"));
    let none = classes.classify(&pictures(1), 0, Effort { draws: Some(0), tolerance: None });
    assert!(none.unwrap_err().to_string().contains("at least one draw"));
    let mut curve = predictor(&CURVE, &[]);
    assert!(said(&mut curve, Inputs::Pixels(pictures(1))).contains("takes tables"));
    assert!(said(&mut curve, Inputs::Rows(Vec::new())).contains("no whole rows"));
    let nan = said(&mut curve, Inputs::Rows(vec![f64::NAN]));
    assert!(nan.contains("NaN") && nan.contains("rows"), "{nan}");
    assert!(curve.features(&pictures(1)).is_err());
    assert_eq!(curve.features_of_rows(&[0.1, 0.2, 0.3]).unwrap().size()[0], 3);
    assert!(classes.features_of_rows(&[0.1]).unwrap_err().to_string().contains("takes pictures"));
    let mut pixels = predictor(&PIXELS, &[]);
    let grey = Tensor::zeros([1, 1, 32, 32], (Kind::Float, Device::Cpu));
    assert!(said(&mut pixels, Inputs::Pixels(grey)).contains("colour pictures"));
}

/// A law that says 3 ± 2 of everything, noise 1.
#[derive(Debug)]
struct Certain;

impl PredictiveLaw for Certain {
    fn classify(&mut self, _: &dyn Network, _: Batch, _: Effort) -> fidgp::Result<(Classified, Spent)> {
        unreachable!("a regression")
    }

    fn regress(
        &mut self,
        _: &dyn Network,
        _: &dyn NumberLikelihood,
        batch: Batch,
        _: Effort,
    ) -> fidgp::Result<(Regressed, Spent)> {
        let all = |number: f64| Tensor::full([1, batch.inputs.size()[0]], number, (Kind::Double, Device::Cpu));
        let variance = Some(all(4.0).squeeze_dim(0));
        Ok((Regressed { means: all(3.0), noise: all(1.0), variance }, Spent { draws: 0, error: 0.0 }))
    }
}

/// The posterior of a network, fitted to some inputs.
fn posterior_of(trained: &Trained, inputs: Tensor) -> LinearisedPosterior {
    let tangent = trained.model.centre(&[]).unwrap();
    let observe = |_: usize, _: i64, outputs: &Tensor| {
        let curvature = Curvature { diagonal: outputs.ones_like(), outer: None };
        Ok(Observed { curvature, misfit: None })
    };
    let rows = inputs.size()[0];
    fit(&tangent, &mut std::iter::once(Ok(inputs)), rows, &observe, &FitConfig::default()).unwrap()
}

/// What a law states of its mean is epistemic, also for a model that has a posterior of its own.
#[test]
fn a_law_of_ones_own_predicts_and_its_variance_is_epistemic() {
    let plain = trained(&CURVE, &[]);
    let mut fitted = trained(&CURVE, &[]);
    fitted.model.posterior = Some(posterior_of(&fitted, Key::new(1).normal(&[30, 1], Kind::Float, Device::Cpu)));
    for trained in [plain, fitted] {
        let mut predictor = Predictor::with_law(trained, Box::new(Certain));
        let said = predictor.regress(&[0.2, 7.0], Effort::default()).unwrap();
        for said in said {
            assert!((said.mean - 3.0).abs() < 1e-12 && (said.epistemic_sd - 2.0).abs() < 1e-12, "{said:?}");
            assert!((said.noise_sd - 1.0).abs() < 1e-12 && (said.sd - 5_f64.sqrt()).abs() < 1e-12, "{said:?}");
        }
    }
}

/// The law keeps the centre, and says at every call what the posterior says.
#[test]
fn a_linearised_posterior_predicts_numbers_as_it_is() {
    let mut trained = trained(&CURVE, &[]);
    trained.model.posterior = Some(posterior_of(&trained, Key::new(1).normal(&[30, 1], Kind::Float, Device::Cpu)));
    let posterior = trained.model.posterior.as_ref().unwrap();
    let rows = Key::new(2).normal(&[70, 1], Kind::Float, Device::Cpu);
    let likelihood = trained.model.likelihood.reading().numbers().unwrap();
    let tangent = trained.model.tangent(posterior).unwrap();
    let expected = posterior.regress(&tangent, likelihood, &[rows.shallow_clone()]).unwrap();
    let [mean, epistemic] = [&expected.mean, &expected.epistemic].map(numbers);
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY).unwrap();
    for _ in 0..2 {
        for (i, said) in predictor.regress(&numbers(&rows), Effort::default()).unwrap().iter().enumerate() {
            assert!((said.mean - mean[i]).abs() < 1e-6 && (said.epistemic_sd - epistemic[i].sqrt()).abs() < 1e-6);
        }
    }
    assert_eq!(predictor.draws(Effort::default()), 0);
    assert!(predictor.basis(0).contains("linearised posterior (dense, 3 layers), in closed form"));
}

/// A model with a posterior has a score of a single pass, and needs no draws of the weights for its entropies.
#[test]
fn the_posterior_has_a_score_of_its_own() {
    let pixels = pictures(4);
    let plain = trained(&IMAGES, &[]);
    let observer = ModelObserver::new(&plain, WeightChoice::Mean, 0, false).unwrap();
    let seen = observer.observe(&pixels).unwrap();
    assert!(seen.linearised.is_none() && seen.draws.is_none());
    let mut fitted = trained(&IMAGES, &[]);
    let x = fitted.model.normalisation.as_ref().unwrap().apply(&pictures(20));
    fitted.model.posterior = Some(posterior_of(&fitted, x));
    let observer = ModelObserver::new(&fitted, WeightChoice::Mean, 0, false).unwrap();
    let seen = observer.observe(&pixels).unwrap();
    let posterior = fitted.model.posterior.as_ref().unwrap();
    let inputs = [fitted.model.normalisation.as_ref().unwrap().apply(&pixels)];
    let expected = posterior.variance(&fitted.model.tangent(posterior).unwrap(), &inputs).unwrap().log();
    let gap = (seen.linearised.unwrap() - expected).abs().max().double_value(&[]);
    assert!(gap < 1e-9, "{gap}");
    let (total, mutual) = seen.draws.unwrap();
    assert!(mutual.min().double_value(&[]) > -1e-9 && total.max().double_value(&[]) > 0.0);
}
