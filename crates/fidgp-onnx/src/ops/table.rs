//! Every operator that is understood.

use super::{
    Kernel, Making, activation, binary, cast, conv, join, norm, pad, pick, pool, product, recurrent, reduce, resize,
    scatter, sequence, shape, unary,
};
use crate::error::Doing;
use crate::graph::Node;

type Make = fn(&Making) -> Doing<Kernel>;

/// An operator.
pub(super) struct Operator {
    name: &'static str,
    /// The version it came with.
    since: i64,
    /// How many inputs, at least and at most.
    inputs: [usize; 2],
    pub make: Make,
}

const ANY: usize = usize::MAX;

const fn op(name: &'static str, since: i64, inputs: [usize; 2], make: Make) -> Operator {
    Operator { name, since, inputs, make }
}

const OPERATORS: &[Operator] = &[
    op("Abs", 1, [1, 1], unary::make),
    op("Acos", 1, [1, 1], unary::make),
    op("Acosh", 1, [1, 1], unary::make),
    op("Add", 7, [2, 2], binary::make),
    op("And", 7, [2, 2], binary::make),
    op("ArgMax", 1, [1, 1], reduce::arg),
    op("ArgMin", 1, [1, 1], reduce::arg),
    op("Asin", 1, [1, 1], unary::make),
    op("Asinh", 1, [1, 1], unary::make),
    op("Atan", 1, [1, 1], unary::make),
    op("Atanh", 1, [1, 1], unary::make),
    op("AveragePool", 1, [1, 1], pool::average),
    op("BatchNormalization", 9, [5, 5], norm::batch),
    op("Cast", 1, [1, 1], cast::cast),
    op("CastLike", 15, [2, 2], cast::cast_like),
    op("Ceil", 1, [1, 1], unary::make),
    op("Celu", 12, [1, 1], activation::celu),
    op("Clip", 11, [1, 3], activation::clip),
    op("Concat", 4, [1, ANY], join::concat),
    op("ConcatFromSequence", 11, [1, 1], sequence::concat),
    op("Constant", 1, [0, 0], shape::constant),
    op("ConstantOfShape", 9, [1, 1], shape::constant_of_shape),
    op("Conv", 1, [2, 3], conv::conv),
    op("ConvTranspose", 1, [2, 3], conv::transposed),
    op("Cos", 1, [1, 1], unary::make),
    op("Cosh", 1, [1, 1], unary::make),
    op("CumSum", 11, [2, 2], reduce::cumulative_sum),
    op("DepthToSpace", 1, [1, 1], shape::depth_to_space),
    op("Div", 7, [2, 2], binary::make),
    op("Dropout", 1, [1, 3], activation::dropout),
    op("Einsum", 12, [1, ANY], product::einsum),
    op("Elu", 1, [1, 1], activation::elu),
    op("Equal", 7, [2, 2], binary::make),
    op("Erf", 9, [1, 1], unary::make),
    op("Exp", 1, [1, 1], unary::make),
    op("Expand", 8, [2, 2], shape::expand),
    op("EyeLike", 9, [1, 1], shape::eye_like),
    op("Flatten", 1, [1, 1], shape::flatten),
    op("Floor", 1, [1, 1], unary::make),
    op("GRU", 7, [3, 6], recurrent::make),
    op("Gather", 1, [2, 2], pick::gather),
    op("GatherElements", 11, [2, 2], pick::gather_elements),
    op("GatherND", 11, [2, 2], pick::gather_nd),
    op("Gelu", 20, [1, 1], activation::gelu),
    op("Gemm", 7, [2, 3], product::gemm),
    op("GlobalAveragePool", 1, [1, 1], pool::global),
    op("GlobalMaxPool", 1, [1, 1], pool::global),
    op("Greater", 7, [2, 2], binary::make),
    op("GreaterOrEqual", 12, [2, 2], binary::make),
    op("GroupNormalization", 18, [3, 3], norm::group),
    op("HardSigmoid", 1, [1, 1], activation::hard_sigmoid),
    op("HardSwish", 14, [1, 1], unary::make),
    op("Identity", 1, [1, 1], unary::make),
    op("InstanceNormalization", 1, [3, 3], norm::instance),
    op("IsNaN", 9, [1, 1], unary::make),
    op("LSTM", 7, [3, 8], recurrent::make),
    op("LayerNormalization", 17, [2, 3], norm::layer),
    op("LeakyRelu", 1, [1, 1], activation::leaky_relu),
    op("Less", 7, [2, 2], binary::make),
    op("LessOrEqual", 12, [2, 2], binary::make),
    op("Log", 1, [1, 1], unary::make),
    op("LogSoftmax", 1, [1, 1], activation::log_softmax),
    op("MatMul", 1, [2, 2], product::matmul),
    op("Max", 8, [1, ANY], binary::make),
    op("MaxPool", 1, [1, 1], pool::max),
    op("Mean", 8, [1, ANY], binary::mean),
    op("Min", 8, [1, ANY], binary::make),
    op("Mish", 18, [1, 1], unary::make),
    op("Mod", 10, [2, 2], binary::modulo),
    op("Mul", 7, [2, 2], binary::make),
    op("Neg", 1, [1, 1], unary::make),
    op("Not", 1, [1, 1], unary::make),
    op("OneHot", 11, [3, 3], shape::one_hot),
    op("Or", 7, [2, 2], binary::make),
    op("PRelu", 7, [2, 2], activation::prelu),
    op("Pad", 11, [2, 4], pad::pad),
    op("Pow", 7, [2, 2], binary::make),
    op("RMSNormalization", 23, [2, 2], norm::root_mean_square),
    op("Range", 11, [3, 3], shape::range),
    op("Reciprocal", 1, [1, 1], unary::make),
    op("ReduceL1", 1, [1, 2], reduce::make),
    op("ReduceL2", 1, [1, 2], reduce::make),
    op("ReduceLogSum", 1, [1, 2], reduce::make),
    op("ReduceLogSumExp", 1, [1, 2], reduce::make),
    op("ReduceMax", 1, [1, 2], reduce::make),
    op("ReduceMean", 1, [1, 2], reduce::make),
    op("ReduceMin", 1, [1, 2], reduce::make),
    op("ReduceProd", 1, [1, 2], reduce::make),
    op("ReduceSum", 1, [1, 2], reduce::make),
    op("ReduceSumSquare", 1, [1, 2], reduce::make),
    op("Relu", 1, [1, 1], unary::make),
    op("Reshape", 5, [2, 2], shape::reshape),
    op("Resize", 11, [1, 4], resize::make),
    op("Round", 11, [1, 1], unary::make),
    op("ScatterElements", 11, [3, 3], scatter::scatter_elements),
    op("ScatterND", 11, [3, 3], scatter::scatter_nd),
    op("Selu", 1, [1, 1], activation::selu),
    op("SequenceAt", 11, [2, 2], sequence::at),
    op("SequenceConstruct", 11, [1, ANY], sequence::construct),
    op("Shape", 1, [1, 1], shape::shape),
    op("Sigmoid", 1, [1, 1], unary::make),
    op("Sign", 9, [1, 1], unary::make),
    op("Sin", 1, [1, 1], unary::make),
    op("Sinh", 1, [1, 1], unary::make),
    op("Size", 1, [1, 1], shape::size),
    op("Slice", 10, [3, 5], pick::slice),
    op("Softmax", 1, [1, 1], activation::softmax),
    op("Softplus", 1, [1, 1], unary::make),
    op("Softsign", 1, [1, 1], unary::make),
    op("SpaceToDepth", 1, [1, 1], shape::space_to_depth),
    op("Split", 2, [1, 2], pick::split),
    op("SplitToSequence", 11, [1, 2], sequence::split),
    op("Sqrt", 1, [1, 1], unary::make),
    op("Squeeze", 1, [1, 2], shape::squeeze),
    op("Sub", 7, [2, 2], binary::make),
    op("Sum", 8, [1, ANY], binary::make),
    op("Swish", 24, [1, 1], activation::swish),
    op("Tan", 1, [1, 1], unary::make),
    op("Tanh", 1, [1, 1], unary::make),
    op("ThresholdedRelu", 10, [1, 1], activation::thresholded_relu),
    op("Tile", 6, [2, 2], shape::tile),
    op("TopK", 10, [2, 2], pick::top_k),
    op("Transpose", 1, [1, 1], shape::transpose),
    op("Trilu", 14, [1, 2], shape::triangle),
    op("Unsqueeze", 1, [1, 2], shape::unsqueeze),
    op("Where", 9, [3, 3], binary::choose),
    op("Xor", 7, [2, 2], binary::make),
];

/// What to do about operators that are known but not understood.
const ADVICE: [(&[&str], &str); 5] = [
    (&["If", "Loop", "Scan"], "graphs within graphs are not understood; export a network without branches on its data"),
    (
        &["QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"],
        "quantised graphs are not understood; export the network in floating point",
    ),
    (&["Upsample"], "Resize took its place with opset 10; export again with opset 20"),
    (
        &["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"],
        "randomness comes from our own draws alone; export the network in evaluation mode",
    ),
    (
        &["NonZero", "Unique", "Compress", "NonMaxSuppression", "RoiAlign"],
        "shapes that follow from the data are not understood; export the network without what stands behind its heads",
    ),
];

/// The operator of a name.
pub(super) fn find(name: &str, domain: &str) -> Doing<&'static Operator> {
    if !domain.is_empty() {
        return Err("operators of other domains are not understood; export without them".into());
    }
    if let Ok(place) = OPERATORS.binary_search_by(|operator| operator.name.cmp(name)) {
        return Ok(&OPERATORS[place]);
    }
    match ADVICE.iter().find(|(names, _)| names.contains(&name)) {
        Some((_, advice)) => Err((*advice).into()),
        None => Err(
            "this operator is not understood; `fidgp onnx operators` lists those that are: write this step with them"
                .into(),
        ),
    }
}

/// The names of all operators.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|operator| operator.name)
}

impl Operator {
    /// Whether version and number of inputs are those that are understood.
    pub fn check(&self, node: &Node) -> Doing<()> {
        if node.place.opset < self.since {
            return Err(format!("is understood from opset {} on; export again with opset 20", self.since).into());
        }
        let [least, most] = self.inputs;
        let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if !(least..=most).contains(&given) || node.inputs.iter().take(least).any(Option::is_none) {
            return Err(format!("has {given} inputs; {} are understood", range(least, most)).into());
        }
        if node.outputs.iter().all(Option::is_none) {
            return Err("has no outputs".into());
        }
        Ok(())
    }
}

fn range(least: usize, most: usize) -> String {
    match most {
        ANY => format!("{least} or more"),
        most if most == least => least.to_string(),
        most => format!("{least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::OPERATORS;

    #[test]
    fn operators_stand_in_order() {
        assert!(OPERATORS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
