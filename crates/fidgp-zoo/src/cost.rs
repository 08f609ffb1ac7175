//! Parameters, multiply-accumulates and bytes of a network, layer by layer, without building it.

use fidgp::flow::FlowConfig;
use fidgp::layer::{LayerGeometry, LayerKind, Operation, SlotConfig};
use fidgp::posterior::PosteriorConfig;
use fidgp::prior::Sizes;
use fidgp::weight::InducingConfig;
use serde::Serialize;

use crate::draw_cost::{DrawCost, flow_row};
use crate::{LayerPlan, Orders, Result};

/// Whose parameters are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// What this library stores.
    Ours,
    /// What the paper's released code has: inducing sizes not capped, one scale more for every inducing row and column,
    /// its own flow (16 hidden units) on convolutions and none on linear layers; of triangular factors only the triangle,
    /// and no deviation beside the members of an ensemble.
    Compat,
}

/// One layer's cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerCost {
    /// Where it stands, and how it runs.
    #[serde(skip)]
    pub geometry: LayerGeometry,
    /// Its path.
    pub name: String,
    /// What it is: `conv 3x3 64>128 /2`.
    pub operation: String,
    /// R and C, for a Bayesian weight.
    pub inducing: Option<[i64; 2]>,
    /// Trainable numbers.
    pub parameters: i64,
    /// Stored numbers that are not trained.
    pub state: i64,
    /// Multiply-accumulates of one image with a given weight.
    pub macs: i64,
    /// Multiply-accumulates of one draw of an inducing weight.
    pub draw: Option<DrawCost>,
    /// Multiply-accumulates of one draw of another method's weight; 0 where it is elementwise, or nothing is drawn.
    pub baseline_draw: i64,
    /// Both orders of evaluation and the one that is taken, for a Bayesian weight; none with groups, whose kernels are blocks.
    pub orders: Option<Orders>,
    /// Multiply-accumulates of one image by our order of evaluation: fewer where the mean weight is applied factor by
    /// factor.
    pub macs_ours: i64,
    /// FLOPs of one image and one draw by the paper's order of evaluation.
    pub flops_paper: i64,
    /// The same by our order of evaluation.
    pub flops_ours: i64,
    /// Size on disk in f32.
    pub bytes_f32: i64,
    /// Size on disk with every number in f16.
    pub bytes_f16: i64,
}

impl LayerCost {
    /// Multiply-accumulates of one draw of the weight by the paper's order of evaluation.
    pub fn draw_paper(&self) -> i64 {
        self.baseline_draw + self.draw.map_or(0, |draw| draw.paper.total())
    }

    /// The same by our order of evaluation.
    pub fn draw_ours(&self) -> i64 {
        self.baseline_draw + self.draw.map_or(0, |draw| draw.ours.total())
    }
}

/// A network's cost. FLOPs are two for each multiply-accumulate of one image and one draw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Trainable numbers.
    pub parameters: i64,
    /// Stored numbers that are not trained.
    pub state: i64,
    /// Multiply-accumulates of one image with given weights.
    pub macs: i64,
    /// FLOPs of one image and one draw by the paper's order of evaluation, as the paper counts.
    pub flops_paper: i64,
    /// The same by our order of evaluation.
    pub flops_ours: i64,
    /// Multiply-accumulates of the prior's factors, once per step or model.
    pub factor_macs: i64,
    /// Size on disk in f32.
    pub bytes_f32: i64,
    /// Size on disk with every number in f16.
    pub bytes_f16: i64,
    /// Every layer, in the order of the forward pass.
    pub layers: Vec<LayerCost>,
}

impl Cost {
    /// The cost of so many networks that are stored together; arithmetic is that of one.
    #[must_use]
    pub fn times(self, copies: i64) -> Self {
        Self {
            parameters: self.parameters * copies,
            state: self.state * copies,
            bytes_f32: self.bytes_f32 * copies,
            bytes_f16: self.bytes_f16 * copies,
            ..self
        }
    }
}

/// Counts a network built by a plan.
///
/// # Errors
/// When the plan names a layer the network does not have, or a flow's settings are impossible.
pub fn cost(network: &[LayerGeometry], plan: &LayerPlan, counting: Counting) -> Result<Cost> {
    let plan = plan.of_network(network)?;
    let counted = |layer| layer_cost(layer, &plan, counting).map(summed);
    let layers = network.iter().map(counted).collect::<Result<Vec<_>>>()?;
    let sum = |part: &dyn Fn(&LayerCost) -> i64| layers.iter().map(part).sum::<i64>();
    let (parameters, state, macs) = (sum(&|l| l.parameters), sum(&|l| l.state), sum(&|l| l.macs));
    Ok(Cost {
        parameters,
        state,
        macs,
        flops_paper: sum(&|l| l.flops_paper),
        flops_ours: sum(&|l| l.flops_ours),
        factor_macs: sum(&|l| l.draw.map_or(0, |draw| draw.factors)),
        bytes_f32: sum(&|l| l.bytes_f32),
        bytes_f16: sum(&|l| l.bytes_f16),
        layers,
    })
}

/// A layer's FLOPs and bytes, from what was counted of it.
fn summed(layer: LayerCost) -> LayerCost {
    let numbers = layer.parameters + layer.state;
    LayerCost {
        flops_paper: 2 * (layer.macs + layer.draw_paper()),
        flops_ours: 2 * (layer.macs_ours + layer.draw_ours()),
        bytes_f32: 4 * numbers,
        bytes_f16: 2 * numbers,
        ..layer
    }
}

fn layer_cost(layer: &LayerGeometry, plan: &LayerPlan, counting: Counting) -> Result<LayerCost> {
    let mut cost = LayerCost {
        geometry: layer.clone(),
        name: layer.name.clone(),
        operation: layer.operation.to_string(),
        inducing: None,
        parameters: layer.dense_parameters(),
        state: layer.buffers(),
        macs: layer.macs(),
        draw: None,
        baseline_draw: 0,
        orders: None,
        macs_ours: layer.macs(),
        flops_paper: 0,
        flops_ours: 0,
        bytes_f32: 0,
        bytes_f16: 0,
    };
    let (Some(kind), Some((d_out, d_in))) = (layer.kind(), layer.weight()) else { return Ok(cost) };
    let config = match plan.slot_for(&layer.name, kind) {
        SlotConfig::Dense => return Ok(cost),
        SlotConfig::Custom(weight) => {
            cost.parameters = weight.parameters(layer);
            cost.state += weight.state(layer);
            cost.macs = weight.macs(layer);
            cost.macs_ours = cost.macs;
            cost.baseline_draw = weight.draw_macs(layer);
            return Ok(cost);
        }
        SlotConfig::Inducing(config) => config,
    };
    let config = if counting == Counting::Compat { compat(&config, kind) } else { *config };
    let sizes = config.sizes(d_out, d_in);
    let flow = sizes.rows * flow_row(&config.posterior, sizes.cols);
    cost.inducing = Some([sizes.rows, sizes.cols]);
    let posterior = match counting {
        Counting::Ours => posterior_parameters(&config.posterior, sizes),
        Counting::Compat => compat_posterior_parameters(&config.posterior, sizes),
    };
    cost.parameters = prior_parameters(sizes) + posterior + i64::from(config.learn_lamda);
    if counting == Counting::Compat {
        // scales of the uniform noise on Z, wherever the released layers replace FFG-U's
        cost.parameters += if plan_has_flow(plan, layer, kind) { sizes.rows + sizes.cols } else { 0 };
    } else {
        cost.state = flow_state(&config.posterior, sizes.cols)? + i64::from(!config.learn_lamda);
    }
    cost.draw = Some(DrawCost::of(sizes, &config, flow));
    if groups(layer) == 1 {
        let orders = Orders::of(layer, sizes, &config);
        cost.macs_ours = orders.taken().input;
        cost.orders = Some(orders);
    }
    Ok(cost)
}

/// The settings as the released code would have them.
fn compat(config: &InducingConfig, kind: LayerKind) -> InducingConfig {
    let posterior = match (&config.posterior, kind) {
        (PosteriorConfig::Flow { .. }, LayerKind::Conv) => PosteriorConfig::Flow { flow: FlowConfig::compat() },
        (PosteriorConfig::Flow { .. }, LayerKind::Linear) => PosteriorConfig::Diagonal,
        (other, _) => other.clone(),
    };
    InducingConfig { cap_inducing: false, posterior, ..config.clone() }
}

/// Whether the plan itself, before `compat`, gives the layer a flow.
fn plan_has_flow(plan: &LayerPlan, layer: &LayerGeometry, kind: LayerKind) -> bool {
    let slot = plan.slot_for(&layer.name, kind);
    matches!(slot, SlotConfig::Inducing(config) if matches!(config.posterior, PosteriorConfig::Flow { .. }))
}

/// `R·d_out + C·d_in + R + C`
fn prior_parameters(Sizes { d_out, d_in, rows, cols }: Sizes) -> i64 {
    rows * d_out + cols * d_in + rows + cols
}

fn posterior_parameters(posterior: &PosteriorConfig, Sizes { rows, cols, .. }: Sizes) -> i64 {
    let entries = rows * cols;
    match posterior {
        PosteriorConfig::Diagonal => 2 * entries,
        PosteriorConfig::MatrixNormal => entries + rows + cols + rows * rows + cols * cols,
        PosteriorConfig::Full => 2 * entries + entries * entries,
        PosteriorConfig::Ensemble { members } => (members + 1) * entries,
        PosteriorConfig::Flow { flow } => 2 * entries + flow.parameter_count(cols),
    }
}

/// The released code's: a triangle has no entries above its diagonal, members have no deviation.
fn compat_posterior_parameters(posterior: &PosteriorConfig, sizes: Sizes) -> i64 {
    let (entries, triangle) = (sizes.rows * sizes.cols, |side: i64| side * (side + 1) / 2);
    match posterior {
        PosteriorConfig::MatrixNormal => entries + triangle(sizes.rows) + triangle(sizes.cols),
        PosteriorConfig::Full => entries + triangle(entries),
        PosteriorConfig::Ensemble { members } => members * entries,
        PosteriorConfig::Diagonal | PosteriorConfig::Flow { .. } => posterior_parameters(posterior, sizes),
    }
}

/// Stored numbers of a flow that are not trained.
fn flow_state(posterior: &PosteriorConfig, cols: i64) -> Result<i64> {
    let PosteriorConfig::Flow { flow } = posterior else { return Ok(0) };
    flow.check(cols)?;
    Ok(flow.state_count(cols))
}

fn groups(layer: &LayerGeometry) -> i64 {
    match layer.operation {
        Operation::Conv(conv) => conv.groups,
        _ => 1,
    }
}
