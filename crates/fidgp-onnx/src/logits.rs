//! Classes from a Gaussian law of the logits: the same normals for every input, through the symmetric root of the covariance.

use tch::Tensor;

use crate::error::Result;
use crate::finish::{self, Map};
use crate::tangent::Stated;
use crate::writer::{Made, Writer};

/// Steps of Newton and Schulz: directions with less than 1e-11 of the variance are not followed to their end.
const STEPS: usize = 32;
/// What is added to all directions where rounding in f32 may have left negative ones.
const SHIFT: f64 = 3e-7;
/// f64 and f32, as ONNX numbers its types.
const DOUBLE: i64 = 11;
const SINGLE: i64 = 1;

/// Writes the draws of the logits and what follows from them. The law is of the logits without the temperature.
///
/// # Shapes
/// logits `[N, K]`, normals `[draws, K]`
pub(crate) fn write(
    writer: &mut Writer,
    logits: &str,
    law: &Stated,
    normals: &Tensor,
    (classes, temperature, map): (i64, f64, Option<&Map>),
) -> Result<()> {
    let mut made = Made::new(writer, "fidgp/logits");
    let (middle, count) = (made.list(&[1]), normals.size()[0] as f64);
    let divisor = made.number(temperature);
    let centre = made.node("Div", &[logits, &divisor]);
    let centre = made.node("Unsqueeze", &[&centre, &middle]); // [N, 1, K]
    let normals = made.writer.constant("fidgp/normals", normals)?;
    let spread = match law {
        Stated::Variance(variance) => {
            let zero = made.number(0.0);
            let variance = made.node("Max", &[variance, &zero]);
            let (root, tall) = (made.node("Sqrt", &[&variance]), made.list(&[-1, 1, 1]));
            let root = made.node("Reshape", &[&root, &tall]);
            made.node("Mul", &[&root, &normals])
        }
        Stated::Covariance(covariance, rounded) => {
            let root = made.root(covariance, classes, if *rounded { SHIFT } else { 0.0 })?;
            made.node("MatMul", &[&normals, &root]) // symmetric: no need to turn it
        }
    };
    let spread = made.node("Div", &[&spread, &divisor]);
    let drawn = made.node("Add", &[&centre, &spread]); // [N, draws, K]
    let log_p = made.node_with("LogSoftmax", &[&drawn], &[("axis", 2)]);
    let p = made.node("Exp", &[&log_p]);
    let (product, last) = (made.node("Mul", &[&p, &log_p]), made.list(&[2]));
    let entropy = made.sum(&product, &last);
    let entropy = made.node("Neg", &[&entropy]);
    let draws = made.number(count);
    let [p, aleatoric] = [&p, &entropy].map(|values| made.sum(values, &middle));
    let [p_name, _, aleatoric_name, _] = finish::names(map);
    made.writer.node("Div", &[&p, &draws], p_name);
    made.writer.node("Div", &[&aleatoric, &draws], aleatoric_name);
    finish::split_entropy(made.writer, classes, map);
    Ok(())
}

impl Made<'_> {
    fn sum(&mut self, values: &str, axes: &str) -> String {
        self.node_with("ReduceSum", &[values, axes], &[("keepdims", 0)])
    }

    fn wide(&mut self, value: &str) -> String {
        self.node_with("Cast", &[value], &[("to", DOUBLE)])
    }

    /// The symmetric root of matrices without negative directions, in f64: of `A = C / tr C`, `Y ← Y (3 − Z Y)/2`,
    /// `Z ← (3 − Z Y)/2 Z` from Y = A, Z = 1. `[N, K, K]`
    fn root(&mut self, c: &str, size: i64, shift: f64) -> Result<String> {
        let eye = Tensor::f_eye(size, (tch::Kind::Float, tch::Device::Cpu))?;
        let eye = self.writer.constant("fidgp/eye", &eye)?;
        let (least, half, more) = (self.number(1e-30), self.number(0.5), self.number(1.5));
        let (both, shift) = (self.list(&[1, 2]), self.number(shift));
        let [eye, least, half, more, shift] = [&eye, &least, &half, &more, &shift].map(|value| self.wide(value));
        let diagonal = self.node("Mul", &[c, &eye]);
        let trace = self.node("ReduceSum", &[&diagonal, &both]); // the axes stay
        let trace = self.node("Max", &[&trace, &least]);
        let (shifted, scaled) = (self.node("Mul", &[&eye, &shift]), self.node("Div", &[c, &trace]));
        let (mut y, mut z) = (self.node("Add", &[&scaled, &shifted]), eye.clone());
        let most = self.node("Mul", &[&eye, &more]);
        for _ in 0..STEPS {
            let product = self.node("MatMul", &[&z, &y]);
            let product = self.node("Mul", &[&product, &half]);
            let step = self.node("Sub", &[&most, &product]);
            (y, z) = (self.node("MatMul", &[&y, &step]), self.node("MatMul", &[&step, &z]));
        }
        let scale = self.node("Sqrt", &[&trace]);
        let root = self.node("Mul", &[&y, &scale]);
        Ok(self.node_with("Cast", &[&root], &[("to", SINGLE)]))
    }
}
