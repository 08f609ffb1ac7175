//! A cost as an explanation, for `fidgp cost --explain`.

use std::fmt::{self, Display, Formatter};

use fidgp::weight::Order;

use crate::{Cost, LayerCost, Orders, thousands};

/// A cost as an explanation: for every Bayesian layer both orders, the one taken, and why. At most 100 columns.
#[derive(Debug)]
pub struct Explained<'a>(pub &'a Cost);

impl Display for Explained<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let mut layers = self.0.layers.iter().filter_map(|layer| Some((layer, layer.orders?))).peekable();
        if layers.peek().is_none() {
            return writeln!(f, "No layer is Bayesian: every weight is stored as it is applied.");
        }
        writeln!(
            f,
            "Multiply-accumulates for each weight draw, and for each input at all its positions. What both orders"
        )?;
        writeln!(f, "share (q(U), its flow, factors, Matheron's correction) is left out.")?;
        layers.try_for_each(|(layer, orders)| write_layer(f, layer, &orders))
    }
}

fn write_layer(f: &mut Formatter, layer: &LayerCost, orders: &Orders) -> fmt::Result {
    let ([d_out, d_in], [rows, cols]) = (orders.weight, layer.inducing.unwrap_or_default());
    writeln!(f, "\n{}: {}, W {d_out}x{d_in}, U {rows}x{cols}", layer.name, layer.operation)?;
    let factored = orders.order == Order::Factored;
    let both = [("build W, then W x", orders.built, !factored), ("T_row (U (T_col x))", orders.factored, factored)];
    for (name, work, taken) in both {
        let mark = if taken { "  <- taken" } else { "" };
        let (draw, input) = (thousands(work.draw), thousands(work.input));
        writeln!(f, "  {name:<20} {draw:>15} a draw {input:>17} an input{mark}")?;
    }
    writeln!(f, "  {}", orders.why(cols))
}
