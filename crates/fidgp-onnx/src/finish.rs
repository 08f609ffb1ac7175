//! What stands behind the draws of an exported graph: their mean, and what they disagree about.

use crate::writer::Writer;

/// What an exported graph gives.
#[derive(Clone, Debug)]
pub enum Outputs {
    /// `probabilities`, and the split of their entropy: `total`, `aleatoric`, `epistemic`, in nats.
    Classes {
        /// How many.
        classes: i64,
        /// What logits are divided by.
        temperature: f64,
    },
    /// `mean`, and deviations: `sd` of a new observation, `epistemic` and `aleatoric`.
    Numbers {
        /// The target's mean and deviation, with which the network's numbers are made into those of the data.
        target: [f64; 2],
        /// Variance of the noise, in the network's numbers; the network's second output where there is none.
        noise: Option<f64>,
    },
}

/// The smallest normal number: below it `p log p` is nothing.
const FLOOR: f64 = f32::MIN_POSITIVE as f64;

/// A variance that was computed in closed form, and what the noise's is divided by.
pub(crate) type Closed = (String, f64);

/// Puts the outputs of all draws together.
pub(crate) fn write(writer: &mut Writer, draws: &[String], outputs: &Outputs, closed: Option<&Closed>) {
    match outputs {
        Outputs::Classes { classes, temperature } => of_classes(writer, draws, *classes, *temperature),
        Outputs::Numbers { target, noise } => of_numbers(writer, draws, (*target, *noise), closed),
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
    let sum = writer.node_with("ReduceSum", &[&product, "fidgp/classes"], &format!("{name}/sum"), &[("keepdims", 0)]);
    writer.node("Neg", &[&sum], name)
}

fn of_classes(writer: &mut Writer, draws: &[String], classes: i64, temperature: f64) {
    writer.whole("fidgp/classes", &[1]);
    let floor = writer.number("fidgp/floor", FLOOR);
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
    let p = mean(writer, &all, "probabilities");
    let floored = writer.node("Max", &[&p, &floor], "fidgp/floored");
    let log_p = writer.node("Log", &[&floored], "fidgp/log");
    let total = entropy(writer, &p, &log_p, "total");
    let aleatoric = mean(writer, &entropies, "aleatoric");
    let difference = writer.node("Sub", &[&total, &aleatoric], "fidgp/difference");
    writer.node("Relu", &[&difference], "epistemic"); // rounding may leave it below
    writer.output("probabilities", Some(classes));
    for name in ["total", "aleatoric", "epistemic"] {
        writer.output(name, None);
    }
}

fn of_numbers(
    writer: &mut Writer,
    draws: &[String],
    ([target_mean, target_sd], noise): ([f64; 2], Option<f64>),
    closed: Option<&Closed>,
) {
    writer.number("fidgp/target_mean", target_mean);
    writer.number("fidgp/target_sd", target_sd);
    writer.number("fidgp/least", 1e-3);
    for (name, index) in [("fidgp/first", 0), ("fidgp/second", 1)] {
        writer.whole(name, &[index]);
    }
    writer.whole("fidgp/column", &[1]);
    let (mut means, mut noises) = (Vec::new(), Vec::new());
    for (k, outputs) in draws.iter().enumerate() {
        let own = |name: &str| format!("fidgp/draw{k}/{name}");
        let column = |writer: &mut Writer, index: &str, name: &str| {
            let picked = writer.node_with("Gather", &[outputs, index], &own(&format!("{name}/picked")), &[("axis", 1)]);
            writer.node("Squeeze", &[&picked, "fidgp/column"], &own(name))
        };
        means.push(column(writer, "fidgp/first", "mean"));
        if noise.is_none() {
            let raw = column(writer, "fidgp/second", "raw");
            let soft = writer.node("Softplus", &[&raw], &own("soft"));
            let sd = writer.node("Add", &[&soft, "fidgp/least"], &own("sd"));
            noises.push(writer.node("Mul", &[&sd, &sd], &own("noise")));
        }
    }
    let average = mean(writer, &means, "fidgp/average");
    let variance = match closed {
        Some((variance, _)) => writer.node("Relu", &[variance], "fidgp/variance"), // rounding may leave it below
        None => spread(writer, &means, &average),
    };
    let noise = match noise {
        Some(noise) => {
            let constant = writer.number("fidgp/constant_noise", noise);
            let zero = writer.node("Sub", &[&average, &average], "fidgp/zero");
            writer.node("Add", &[&zero, &constant], "fidgp/noise")
        }
        None => mean(writer, &noises, "fidgp/noise"),
    };
    let noise = match closed {
        Some((_, curvature)) => {
            let divisor = writer.number("fidgp/curvature", *curvature);
            writer.node("Div", &[&noise, &divisor], "fidgp/settled_noise")
        }
        None => noise,
    };
    let scaled = writer.node("Mul", &[&average, "fidgp/target_sd"], "fidgp/scaled");
    writer.node("Add", &[&scaled, "fidgp/target_mean"], "mean");
    let both = writer.node("Add", &[&variance, &noise], "fidgp/both");
    for (variance, name) in [(both, "sd"), (variance, "epistemic"), (noise, "aleatoric")] {
        let root = writer.node("Sqrt", &[&variance], &format!("fidgp/{name}/root"));
        writer.node("Mul", &[&root, "fidgp/target_sd"], name);
    }
    for name in ["mean", "sd", "epistemic", "aleatoric"] {
        writer.output(name, None);
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
