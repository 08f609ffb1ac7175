//! The cost of a network as a table.

use std::fmt::{self, Display, Formatter};

use crate::{Cost, LayerCost, thousands};

impl Display for Cost {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let name_width = self.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0).max(5);
        let header = format!("{:<name_width$}  {:<20}", "layer", "operation");
        writeln!(
            f,
            "{header}  {:>9}  {:>12}  {:>14}  {:>14}  {:>14}  {:>14}",
            "inducing", "parameters", "MACs", "MACs, ours", "draw, paper", "draw, ours"
        )?;
        for layer in self.layers.iter().filter(|layer| layer.macs > 0) {
            write_layer(f, layer, name_width)?;
        }
        let norms = self.layers.iter().filter(|layer| layer.macs == 0);
        let norms: i64 = norms.map(|layer| layer.parameters).sum();
        writeln!(f, "{:<name_width$}  {:<20}  {:>9}  {:>12}", "bn", "all batch norms", "", thousands(norms))?;
        writeln!(f)?;
        for (label, value) in [
            ("parameters", thousands(self.parameters)),
            ("MACs per image and pass", thousands(self.macs)),
            ("FLOPs per image and draw, paper's order", thousands(self.flops_paper)),
            ("FLOPs per image and draw, our order", thousands(self.flops_ours)),
            ("MACs of the factors, once per step or model", thousands(self.factor_macs)),
            ("bytes in f32 / f16", format!("{} / {}", thousands(self.bytes_f32), thousands(self.bytes_f16))),
        ] {
            write_total(f, label, &value)?;
        }
        Ok(())
    }
}

/// One of the lines below the table.
///
/// # Errors
/// When the formatter refuses it.
pub fn write_total(f: &mut Formatter, label: &str, value: &str) -> fmt::Result {
    writeln!(f, "{label:<44} {value:>18}")
}

fn write_layer(f: &mut Formatter, layer: &LayerCost, name_width: usize) -> fmt::Result {
    let inducing = layer.inducing.map_or_else(String::new, |[rows, cols]| format!("{rows}x{cols}"));
    let draw = |macs: i64| if macs == 0 { String::new() } else { thousands(macs) };
    let (paper, ours) = (draw(layer.draw_paper()), draw(layer.draw_ours()));
    let (name, operation) = (&layer.name, &layer.operation);
    let (parameters, macs) = (thousands(layer.parameters), thousands(layer.macs));
    let order = if layer.macs_ours == layer.macs { "=".to_owned() } else { thousands(layer.macs_ours) };
    write!(f, "{name:<name_width$}  {operation:<20}  {inducing:>9}  {parameters:>12}  {macs:>14}  {order:>14}")?;
    writeln!(f, "  {paper:>14}  {ours:>14}")
}
