//! How a layer carries its inducing matrix to its outputs.

use tch::{Kind, Tensor};

use crate::layer::{Conv2dConfig, Factors, Operation};
use crate::weight::InducingWeight;
use crate::{Error, Result};

/// A layer's two sides, `W = σ_p A_rᵀ V A_c`.
#[derive(Debug)]
pub struct Carried {
    /// The layer.
    pub name: String,
    /// A_r. `[R, d_out]`
    pub row: Tensor,
    /// A_c. `[C, d_in]`
    pub col: Tensor,
    /// σ_p.
    pub scale: f64,
}

impl Carried {
    /// The sides of an inducing weight.
    ///
    /// # Errors
    /// When the weight is not among those the factors were made of.
    pub fn of(weight: &InducingWeight, factors: &Factors) -> Result<Self> {
        let factors = factors.get(&weight.name)?;
        let (row, col) = (factors.a_row.detach(), factors.a_col.detach());
        Ok(Self { name: weight.name.clone(), row, col, scale: weight.prior_scale() })
    }

    /// The same layer with every weight by itself in place of the inducing matrix: R = d_out, C = d_in.
    pub(super) fn whole(&self) -> Self {
        let eye = |side: &Tensor| Tensor::eye(side.size()[1], (side.kind(), side.device()));
        Self { name: self.name.clone(), row: eye(&self.row), col: eye(&self.col), scale: self.scale }
    }

    /// R·C.
    pub fn size(&self) -> i64 {
        self.row.size()[0] * self.col.size()[0]
    }

    /// `A_c a` at every position; the groups of a convolution are positions of their own.
    ///
    /// # Shapes
    /// `[N, .., in]` or `[N, in, H, W]` → `[N, P, C]`
    pub fn columns(&self, input: &Tensor, operation: Operation) -> Tensor {
        let input = input.to_kind(self.col.kind());
        match operation {
            Operation::Linear { bias, .. } => {
                let width = self.col.size()[1] - i64::from(bias);
                let own = input.reshape([input.size()[0], -1, width]).matmul(&self.col.narrow(1, 0, width).mt());
                if bias { own + self.col.select(1, width) } else { own }
            }
            Operation::Conv(config) => self.convolved(&input, &config),
            _ => unreachable!("{NO_WEIGHT}"),
        }
    }

    /// A convolution to C channels, group by group.
    fn convolved(&self, input: &Tensor, config: &Conv2dConfig) -> Tensor {
        let Conv2dConfig { stride, padding, dilation, groups, bias, .. } = *config;
        let [_, inputs, kh, kw] = config.weight_shape();
        let ([n, _, h, w], cols) = (four(input), self.col.size()[0]);
        let kernel = self.col.narrow(1, 0, inputs * kh * kw).reshape([cols, inputs, kh, kw]);
        let bias = bias.then(|| self.col.select(1, inputs * kh * kw));
        let apart = input.reshape([n * groups, inputs, h, w]);
        let out = apart.conv2d(&kernel, bias.as_ref(), stride, padding, dilation, 1); // [N·G, C, H', W']
        out.flatten(2, 3).mt().reshape([n, -1, cols])
    }

    /// `A_r g` at every position, in the order of [`Self::columns`].
    ///
    /// # Shapes
    /// `[N, .., out]` or `[N, out, H', W']` → `[N, P, R]`
    pub fn rows(&self, gradient: &Tensor, operation: Operation) -> Tensor {
        let (gradient, [rows, d_out]) = (gradient.to_kind(self.row.kind()), [self.row.size()[0], self.row.size()[1]]);
        let n = gradient.size()[0];
        match operation {
            Operation::Linear { .. } => gradient.reshape([n, -1, d_out]).matmul(&self.row.mt()),
            Operation::Conv(Conv2dConfig { groups, .. }) => {
                let apart = gradient.reshape([n, groups, d_out / groups, -1]).mt(); // [N, G, P', out/G]
                let side = self.row.reshape([rows, groups, d_out / groups]).permute([1, 2, 0]);
                apart.matmul(&side).reshape([n, -1, rows])
            }
            _ => unreachable!("{NO_WEIGHT}"),
        }
    }

    /// `σ_p Σ_positions (A_r g_k)(A_c a)ᵀ` for K gradients.
    ///
    /// # Shapes
    /// rows `[N, K, P, R]`, columns `[N, P, C]` → `[N, K, R, C]`
    pub fn jacobian(&self, rows: &Tensor, columns: &Tensor) -> Tensor {
        let [n, k, _, r] = four(rows);
        let tall = rows.mt().reshape([n, k * r, -1]); // [N, K·R, P]
        (tall.matmul(columns) * self.scale).view([n, k, r, -1])
    }
}

impl Carried {
    /// `σ_p² ⟨G_k, G_k'⟩` of the gradients `G_k = Σ_positions g_k aᵀ` by the weights themselves; of one position they are
    /// never formed.
    ///
    /// # Shapes
    /// gradients K of the layer's output, inputs → `[N, K, K]`
    pub(super) fn energy(&self, input: &Tensor, gradients: &[Tensor], operation: Operation) -> Tensor {
        let whole = self.whole();
        let columns = whole.columns(input, operation);
        let rows = Tensor::stack(&gradients.iter().map(|g| whole.rows(g, operation)).collect::<Vec<_>>(), 1);
        let flat = if columns.size()[1] == 1 {
            rows.select(2, 0)
                * columns.square().sum_dim_intlist([1i64, 2].as_slice(), false, None::<Kind>).sqrt().view([-1, 1, 1])
                * self.scale
        } else {
            whole.jacobian(&rows, &columns).flatten(2, 3)
        };
        let flat = flat.to_kind(Kind::Double);
        flat.matmul(&flat.mt())
    }
}

const NO_WEIGHT: &str = "layers with a Bayesian weight are convolutions or linear";

fn four(tensor: &Tensor) -> [i64; 4] {
    <[i64; 4]>::try_from(tensor.size()).unwrap_or_else(|size| unreachable!("four axes, not {size:?}"))
}

/// Refuses a layer that was not met, or more than once: its Jacobian would miss the other times.
pub(super) fn once(layer: &str, met: Option<(Operation, u32)>) -> Result<Operation> {
    match met {
        Some((operation, 1)) => Ok(operation),
        None => Err(Error::setting(
            "layer",
            layer,
            "is not reached by these inputs: leave it out of the posterior's layers",
        )),
        Some((_, times)) => {
            let why =
                format!("is used {times} times in one pass, a linearised posterior takes layers that are used once");
            Err(Error::setting("layer", layer, why))
        }
    }
}
