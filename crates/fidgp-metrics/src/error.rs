/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, MetricError>;

/// What was wrong with the input, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// Nothing to average.
    #[error("{what} is empty; pass at least one value")]
    Empty {
        /// The argument.
        what: &'static str,
    },
    /// One of the two populations that a ranking compares is missing.
    #[error("there are no {missing} scores; a ranking needs both ID and OoD scores, check how the sets were split")]
    OneClass {
        /// `"ID"` or `"OoD"`.
        missing: &'static str,
    },
    /// Too few values for the statistic.
    #[error("{what} has {got} value(s) but at least {need} are needed; add repetitions")]
    TooFew {
        /// The argument.
        what: &'static str,
        /// Smallest number that would do.
        need: usize,
        /// Number received.
        got: usize,
    },
    /// Two lengths that must agree do not.
    #[error("{what} has length {got}, expected {expected}; pass one entry per prediction, row-major")]
    Length {
        /// The argument.
        what: &'static str,
        /// Length that would do.
        expected: usize,
        /// Length received.
        got: usize,
    },
    /// NaN, or an infinity where only finite numbers make sense.
    #[error("{what}[{index}] is {value}; find where the network diverged before computing metrics")]
    NotFinite {
        /// The argument.
        what: &'static str,
        /// Position in the slice.
        index: usize,
        /// The value found there.
        value: f64,
    },
    /// A variance that is zero or negative.
    #[error("{what}[{index}] is {value}, but a variance must be positive; add the noise variance or a small floor")]
    NotPositive {
        /// The argument.
        what: &'static str,
        /// Position in the slice.
        index: usize,
        /// The value found there.
        value: f64,
    },
    /// A probability outside [0, 1].
    #[error("row {row}, class {class}: {value} is not a probability in [0, 1]; pass softmax outputs, not logits")]
    Probability {
        /// Row of the table.
        row: usize,
        /// Column of the table.
        class: usize,
        /// The value found there.
        value: f64,
    },
    /// A row of probabilities that does not sum to one.
    #[error("row {row} sums to {sum}, not 1; normalise it, and check that `classes` is the row length")]
    ProbabilitySum {
        /// Row of the table.
        row: usize,
        /// Its sum.
        sum: f64,
    },
    /// A label that names no class.
    #[error("label {label} of row {row} is not below {classes}, the number of classes; remove ignored rows first")]
    Label {
        /// Row of the table.
        row: usize,
        /// The label found there.
        label: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A count that must be at least one is zero.
    #[error("{what} is 0; choose at least 1")]
    Zero {
        /// The argument.
        what: &'static str,
    },
    /// A level that is not strictly between 0 and 1.
    #[error("level {value} is not between 0 and 1; write 95 % as 0.95")]
    Level {
        /// The value received.
        value: f64,
    },
    /// Too few examples for a guarantee at a level.
    #[error("{got} example(s) are too few for level {level}; at least {need} are needed, or ask for a lower level")]
    TooFewForLevel {
        /// Number received.
        got: usize,
        /// Smallest number that would do.
        need: usize,
        /// The level asked for.
        level: f64,
    },
    /// A class with too few examples for a guarantee of its own.
    #[error(
        "class {class} is the smallest with {got} example(s), but level {level} needs {need} of every class; add some, ask \
         for a lower level, or do without a guarantee for each class"
    )]
    SmallClass {
        /// The class.
        class: usize,
        /// Its examples.
        got: usize,
        /// Smallest number that would do.
        need: usize,
        /// The level asked for.
        level: f64,
    },
    /// Values that must not rise do.
    #[error("{what}[{index}] is {value}, more than the one before it; order the settings from cheap to safe")]
    Order {
        /// The argument.
        what: &'static str,
        /// Position in the slice.
        index: usize,
        /// The value found there.
        value: f64,
    },
    /// A share outside [0, 1].
    #[error("{what}[{index}] is {value}, which is not between 0 and 1")]
    Share {
        /// The argument.
        what: &'static str,
        /// Position in the slice.
        index: usize,
        /// The value found there.
        value: f64,
    },
}
