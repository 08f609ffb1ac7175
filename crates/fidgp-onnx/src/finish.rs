//! What stands behind the draws of an exported graph: their mean, and what they disagree about.

use crate::writer::Writer;

/// Factors w and shifts b of the logarithms of probabilities.
pub type Map = [Vec<f64>; 2];

/// What an exported graph gives.
#[derive(Clone, Debug)]
pub enum Outputs {
    /// `probabilities`, and the split of their entropy: `total`, `aleatoric`, `epistemic`, in nats.
    Classes {
        /// How many.
        classes: i64,
        /// What logits are divided by.
        temperature: f64,
        /// w and b where the mean is mapped: probabilities are then `softmax(w ⊙ ln p + b)`.
        map: Option<Map>,
    },
    /// `mean`, and deviations: `sd` of a new observation, `epistemic` and `aleatoric`.
    Numbers {
        /// The target's mean and deviation, with which the network's numbers are made into those of the data.
        target: [f64; 2],
        /// Variance of the noise, in the network's numbers; the network's second output where there is none.
        noise: Option<f64>,
        /// Whether these are numbers whose logarithm the network predicts.
        logarithm: bool,
    },
}

/// The smallest normal number: below it `p log p` is nothing.
const FLOOR: f64 = f32::MIN_POSITIVE as f64;

/// A variance that was computed in closed form, and what the noise's is divided by.
pub(crate) type Closed = (String, f64);

/// Puts the outputs of all draws together.
pub(crate) fn write(writer: &mut Writer, draws: &[String], outputs: &Outputs, closed: Option<&Closed>) {
    match outputs {
        Outputs::Classes { classes, temperature, map } => {
            of_classes(writer, draws, *classes, *temperature, map.as_ref());
        }
        Outputs::Numbers { target, noise, logarithm } => {
            let law = Law { target: *target, noise: *noise, logarithm: *logarithm };
            of_numbers(writer, draws, &law, closed);
        }
    }
}

/// The mean of several values.
fn mean(writer: &mut Writer, values: &[String], name: &str) -> String {
    if let [one] = values {
        return writer.node("Identity", &[one], name);
    }
    let names: Vec<_> = values.iter().map(String::as_str).collect();
    writer.node("Mean", &names, name)
}

/// `−Σ p log p` of every row.
fn entropy(writer: &mut Writer, p: &str, log_p: &str, name: &str) -> String {
    let product = writer.node("Mul", &[p, log_p], &format!("{name}/product"));
    let axis = writer.whole(&format!("{name}/classes"), &[1]);
    let sum = writer.node_with("ReduceSum", &[&product, &axis], &format!("{name}/sum"), &[("keepdims", 0)]);
    writer.node("Neg", &[&sum], name)
}

fn of_classes(writer: &mut Writer, draws: &[String], classes: i64, temperature: f64, map: Option<&Map>) {
    let divisor = ((temperature - 1.0).abs() > 0.0).then(|| writer.number("fidgp/temperature", temperature));
    let (mut all, mut entropies) = (Vec::new(), Vec::new());
    for (k, logits) in draws.iter().enumerate() {
        let own = |name: &str| format!("fidgp/draw{k}/{name}");
        let logits = match &divisor {
            Some(divisor) => writer.node("Div", &[logits, divisor], &own("tempered")),
            None => logits.clone(),
        };
        let log_p = writer.node_with("LogSoftmax", &[&logits], &own("log"), &[("axis", 1)]);
        let p = writer.node("Exp", &[&log_p], &own("p"));
        entropies.push(entropy(writer, &p, &log_p, &own("entropy")));
        all.push(p);
    }
    let [p, _, aleatoric, _] = names(map);
    mean(writer, &all, p);
    mean(writer, &entropies, aleatoric);
    split_entropy(writer, classes, map);
}

/// Probabilities and entropies before a map; what is only on the way has a name of its own.
pub(crate) fn names(map: Option<&Map>) -> [&'static str; 4] {
    match map {
        None => ["probabilities", "total", "aleatoric", "epistemic"],
        Some(_) => ["fidgp/stated/p", "fidgp/stated/total", "fidgp/stated/aleatoric", "fidgp/stated/epistemic"],
    }
}

/// The entropy of the probabilities, what of it is not aleatoric, and what a map makes of both.
pub(crate) fn split_entropy(writer: &mut Writer, classes: i64, map: Option<&Map>) {
    let [p, total, aleatoric, epistemic] = names(map);
    let floor = writer.number("fidgp/floor", FLOOR);
    let floored = writer.node("Max", &[p, &floor], "fidgp/floored");
    let log_p = writer.node("Log", &[&floored], "fidgp/log");
    let total = entropy(writer, p, &log_p, total);
    let difference = writer.node("Sub", &[&total, aleatoric], "fidgp/difference");
    let epistemic = writer.node("Relu", &[&difference], epistemic); // rounding may leave it below
    if let Some(map) = map {
        mapped(writer, &log_p, &epistemic, map);
    }
    writer.output("probabilities", Some(classes));
    for name in ["total", "aleatoric", "epistemic"] {
        writer.output(name, None);
    }
}

/// Probabilities that were recalibrated, and their uncertainties: what the weights leave open is at most all of it.
fn mapped(writer: &mut Writer, log_p: &str, epistemic: &str, [factors, shifts]: &Map) {
    let factors = writer.numbers("fidgp/map/factors", factors);
    let shifts = writer.numbers("fidgp/map/shifts", shifts);
    let scaled = writer.node("Mul", &[log_p, &factors], "fidgp/map/scaled");
    let logits = writer.node("Add", &[&scaled, &shifts], "fidgp/map/logits");
    let log_p = writer.node_with("LogSoftmax", &[&logits], "fidgp/map/log", &[("axis", 1)]);
    let p = writer.node("Exp", &[&log_p], "probabilities");
    let total = entropy(writer, &p, &log_p, "total");
    let epistemic = writer.node("Min", &[epistemic, &total], "epistemic");
    writer.node("Sub", &[&total, &epistemic], "aleatoric");
}

/// How the network's numbers become those of the data.
struct Law {
    target: [f64; 2],
    noise: Option<f64>,
    logarithm: bool,
}

/// The largest logarithm that is followed: the square of its number is finite in f32.
const MOST: f64 = 40.0;

fn of_numbers(writer: &mut Writer, draws: &[String], law: &Law, closed: Option<&Closed>) {
    let [target_mean, target_sd] = law.target;
    // of a logarithm: numbers are in units of exp(target_mean), so that nothing overflows
    let (shift, unit) = if law.logarithm { (0.0, target_mean.exp()) } else { (target_mean, target_sd) };
    writer.number("fidgp/shift", shift);
    writer.number("fidgp/unit", unit);
    let (mut means, mut noises) = columns(writer, draws, law.noise);
    if let Some((_, curvature)) = closed {
        let divisor = writer.number("fidgp/curvature", *curvature);
        let settled = |(k, noise): (usize, &String)| writer.node("Div", &[noise, &divisor], &of(k, "settled"));
        noises = noises.iter().enumerate().map(settled).collect();
    }
    let mut variance = closed.map(|(variance, _)| writer.node("Relu", &[variance], "fidgp/stated")); // rounding
    if law.logarithm {
        let exponential = Exponential::new(writer, target_sd);
        (means, noises, variance) = exponential.of(writer, (&means, &noises), variance);
    }
    let average = mean(writer, &means, "fidgp/average");
    let variance = variance.unwrap_or_else(|| spread(writer, &means, &average));
    let noise = mean(writer, &noises, "fidgp/noise");
    let scaled = writer.node("Mul", &[&average, "fidgp/unit"], "fidgp/scaled");
    writer.node("Add", &[&scaled, "fidgp/shift"], "mean");
    let both = writer.node("Add", &[&variance, &noise], "fidgp/both");
    for (variance, name) in [(both, "sd"), (variance, "epistemic"), (noise, "aleatoric")] {
        let root = writer.node("Sqrt", &[&variance], &format!("fidgp/{name}/root"));
        writer.node("Mul", &[&root, "fidgp/unit"], name);
    }
    for name in ["mean", "sd", "epistemic", "aleatoric"] {
        writer.output(name, None);
    }
}

fn of(draw: usize, name: &str) -> String {
    format!("fidgp/draw{draw}/{name}")
}

/// Means and variances of the noise of all draws, in the network's numbers.
fn columns(writer: &mut Writer, draws: &[String], constant: Option<f64>) -> (Vec<String>, Vec<String>) {
    for (name, index) in [("fidgp/first", 0), ("fidgp/second", 1)] {
        writer.whole(name, &[index]);
    }
    writer.whole("fidgp/column", &[1]);
    writer.number("fidgp/least", 1e-3);
    let constant = constant.map(|noise| writer.number("fidgp/constant_noise", noise));
    let (mut means, mut noises) = (Vec::new(), Vec::new());
    for (k, outputs) in draws.iter().enumerate() {
        let column = |writer: &mut Writer, index: &str, name: &str| {
            let picked =
                writer.node_with("Gather", &[outputs, index], &of(k, &format!("{name}/picked")), &[("axis", 1)]);
            writer.node("Squeeze", &[&picked, "fidgp/column"], &of(k, name))
        };
        let mean = column(writer, "fidgp/first", "mean");
        noises.push(if let Some(constant) = &constant {
            let zero = writer.node("Sub", &[&mean, &mean], &of(k, "zero"));
            writer.node("Add", &[&zero, constant], &of(k, "noise"))
        } else {
            let raw = column(writer, "fidgp/second", "raw");
            let soft = writer.node("Softplus", &[&raw], &of(k, "soft"));
            let sd = writer.node("Add", &[&soft, "fidgp/least"], &of(k, "sd"));
            writer.node("Mul", &[&sd, &sd], &of(k, "noise"))
        });
        means.push(mean);
    }
    (means, noises)
}

/// Moments of log-normal distributions from those of the logarithm.
struct Exponential {
    sd: String,
    half: String,
    most: String,
    two: String,
}

impl Exponential {
    fn new(writer: &mut Writer, target_sd: f64) -> Self {
        Self {
            sd: writer.number("fidgp/log_sd", target_sd),
            half: writer.number("fidgp/half", 0.5),
            most: writer.number("fidgp/most", MOST),
            two: writer.number("fidgp/two", 2.0),
        }
    }

    /// Means, variances of the noise, and the variance that a law states; then the noise is what is left of the whole.
    fn of(
        &self,
        writer: &mut Writer,
        (means, noises): (&[String], &[String]),
        stated: Option<String>,
    ) -> (Vec<String>, Vec<String>, Option<String>) {
        let (mut out_means, mut out_noises) = (Vec::new(), Vec::new());
        let stated = stated.map(|variance| self.widened(writer, &variance, "fidgp/stated"));
        let mut own = None;
        for (k, (mean, noise)) in means.iter().zip(noises).enumerate() {
            let m = writer.node("Mul", &[mean, &self.sd], &of(k, "log/mean"));
            let mut v = self.widened(writer, noise, &of(k, "log/noise"));
            if let Some(stated) = &stated {
                v = writer.node("Add", &[&v, stated], &of(k, "log/both"));
            }
            let v = writer.node("Min", &[&v, &self.most], &of(k, "log/variance"));
            let halved = writer.node("Mul", &[&v, &self.half], &of(k, "log/half"));
            let sum = writer.node("Add", &[&m, &halved], &of(k, "log/sum"));
            let sum = writer.node("Min", &[&sum, &self.most], &of(k, "log/bounded"));
            let mean = writer.node("Exp", &[&sum], &of(k, "number/mean"));
            let square = writer.node("Mul", &[&mean, &mean], &of(k, "number/square"));
            let all = self.share(writer, &square, &v, &of(k, "number"));
            out_noises.push(match &stated {
                Some(stated) => {
                    let stated = writer.node("Min", &[stated, &self.most], "fidgp/stated/bounded");
                    let part = self.share(writer, &square, &stated, "fidgp/stated");
                    let rest = writer.node("Sub", &[&all, &part], &of(k, "number/rest"));
                    own = Some(part);
                    writer.node("Relu", &[&rest], &of(k, "number/noise"))
                }
                None => all,
            });
            out_means.push(mean);
        }
        (out_means, out_noises, own)
    }

    /// A variance in the units of the logarithm.
    fn widened(&self, writer: &mut Writer, variance: &str, name: &str) -> String {
        let once = writer.node("Mul", &[variance, &self.sd], &format!("{name}/once"));
        writer.node("Mul", &[&once, &self.sd], &format!("{name}/wide"))
    }

    /// `square (exp v − 1)`, as `2 square sinh(v/2) exp(v/2)`: nothing is lost where v is small.
    fn share(&self, writer: &mut Writer, square: &str, v: &str, name: &str) -> String {
        let half = writer.node("Mul", &[v, &self.half], &format!("{name}/half"));
        let sinh = writer.node("Sinh", &[&half], &format!("{name}/sinh"));
        let exp = writer.node("Exp", &[&half], &format!("{name}/exp"));
        let product = writer.node("Mul", &[&sinh, &exp], &format!("{name}/product"));
        let twice = writer.node("Mul", &[&product, &self.two], &format!("{name}/twice"));
        writer.node("Mul", &[&twice, square], &format!("{name}/share"))
    }
}

/// The variance of draws around their mean.
fn spread(writer: &mut Writer, means: &[String], average: &str) -> String {
    let mut squares = Vec::new();
    for (k, one) in means.iter().enumerate() {
        let off = writer.node("Sub", &[one, average], &format!("fidgp/draw{k}/off"));
        squares.push(writer.node("Mul", &[&off, &off], &format!("fidgp/draw{k}/square")));
    }
    mean(writer, &squares, "fidgp/variance")
}
