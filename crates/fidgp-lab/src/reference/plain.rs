//! A multilayer perceptron with one output in f64, with its derivatives by the weights: small, slow and exact.

use fidgp_zoo::Activation;

use crate::error::{LabError, Result};

/// Layers one after another, a 1 appended to the input of each.
#[derive(Clone, Debug)]
pub struct PlainNetwork {
    /// Inputs, hidden widths, outputs.
    widths: Vec<usize>,
    activation: Activation,
}

impl PlainNetwork {
    /// # Errors
    /// When the activation's derivative is not known here.
    pub fn new(widths: Vec<usize>, activation: Activation) -> Result<Self> {
        if matches!(activation, Activation::Gelu | Activation::Silu) {
            return Err(LabError::config("network.activation", "must be relu, tanh or sine for a reference posterior"));
        }
        Ok(Self { widths, activation })
    }

    /// How many weights each layer has, biases included.
    pub fn sizes(&self) -> Vec<usize> {
        self.widths.windows(2).map(|pair| pair[1] * (pair[0] + 1)).collect()
    }

    /// `f(x)` and `∂f/∂w`, layer by layer, each `[d_out, d_in + 1]` row by row.
    pub fn gradient(&self, weights: &[f64], x: f64) -> (f64, Vec<f64>) {
        let mut gradient = vec![0.0; weights.len()];
        let value = self.add_gradient(weights, x, &mut |_| 1.0, &mut gradient);
        (value, gradient)
    }

    /// Adds `c(f(x)) ∂f/∂w` to a gradient; gives `f(x)`.
    pub fn add_gradient(
        &self,
        weights: &[f64],
        x: f64,
        factor: &mut dyn FnMut(f64) -> f64,
        gradient: &mut [f64],
    ) -> f64 {
        let (inputs, slopes) = self.forward(weights, x);
        let layers = self.widths.len() - 1;
        let value = inputs[layers][0];
        let mut signal = vec![factor(value)];
        let mut end = weights.len();
        for layer in (0..layers).rev() {
            let (input, width) = (&inputs[layer], self.widths[layer] + 1);
            let start = end - signal.len() * width;
            let mut below = vec![0.0; self.widths[layer]];
            for (row, own) in signal.iter().enumerate() {
                let rows = start + row * width..start + (row + 1) * width;
                let (weights, gradient) = (&weights[rows.clone()], &mut gradient[rows]);
                gradient.iter_mut().zip(input).for_each(|(g, a)| *g += own * a);
                gradient[width - 1] += own;
                below.iter_mut().zip(weights).for_each(|(b, w)| *b += own * w);
            }
            if layer > 0 {
                below.iter_mut().zip(&slopes[layer - 1]).for_each(|(b, slope)| *b *= slope);
            }
            (signal, end) = (below, start);
        }
        value
    }

    /// Inputs of every layer, the outputs last, and the slopes of every activation.
    fn forward(&self, weights: &[f64], x: f64) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let (mut inputs, mut slopes, mut start) = (vec![vec![x]], Vec::new(), 0);
        for (layer, pair) in self.widths.windows(2).enumerate() {
            let width = pair[0] + 1;
            let own = &weights[start..start + pair[1] * width];
            let sum = |row: &[f64]| row[width - 1] + row.iter().zip(&inputs[layer]).map(|(w, a)| w * a).sum::<f64>();
            let sums: Vec<f64> = own.chunks_exact(width).map(sum).collect();
            start += own.len();
            if layer + 2 == self.widths.len() {
                inputs.push(sums);
            } else {
                let (values, slope) = sums.into_iter().map(|sum| self.activated(sum)).unzip();
                inputs.push(values);
                slopes.push(slope);
            }
        }
        (inputs, slopes)
    }

    /// The activation and its slope.
    fn activated(&self, x: f64) -> (f64, f64) {
        match self.activation {
            Activation::Relu => (x.max(0.0), f64::from(u8::from(x > 0.0))),
            Activation::Sine => x.sin_cos(),
            _ => {
                let value = x.tanh();
                (value, 1.0 - value * value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        for activation in [Activation::Tanh, Activation::Sine, Activation::Relu] {
            let network = PlainNetwork::new(vec![1, 4, 3, 1], activation).unwrap();
            let count: usize = network.sizes().iter().sum();
            let weights: Vec<f64> = (0..count).map(|i| ((i * 37 % 19) as f64 - 9.0) / 10.0).collect();
            let (_, gradient) = network.gradient(&weights, 0.7);
            for i in 0..count {
                let moved = |by: f64| {
                    let mut moved = weights.clone();
                    moved[i] += by;
                    network.gradient(&moved, 0.7).0
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((gradient[i] - expected).abs() < 1e-8, "{activation:?} {i}: {} {expected}", gradient[i]);
            }
        }
        assert!(PlainNetwork::new(vec![1, 1], Activation::Gelu).is_err());
    }
}
