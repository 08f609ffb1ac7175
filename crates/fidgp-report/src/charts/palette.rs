//! Colours, once for light and once for dark. The series colours are Okabe and Ito's, which colour-blind readers can
//! tell apart; in the dark they are lifted.

/// Name, light, dark.
const COLOURS: [(&str, &str, &str); 15] = [
    ("paper", "#ffffff", "#12161c"),
    ("card", "#f6f7f9", "#1a2028"),
    ("ink", "#1a212b", "#e7ebf0"),
    ("muted", "#586473", "#a0abb9"),
    ("faint", "#e2e6eb", "#2c343f"),
    ("shade", "#eceef2", "#222933"),
    ("c0", "#0072b2", "#5aaee6"),
    ("c1", "#d55e00", "#f28e4a"),
    ("c2", "#00835f", "#45c79d"),
    ("c3", "#b8558c", "#e39ac6"),
    ("c4", "#b67d00", "#efbd52"),
    ("c5", "#3a9bd6", "#93d0f5"),
    ("c6", "#5d4a9c", "#b7a3ea"),
    ("epistemic", "#0072b2", "#5aaee6"),
    ("noise", "#e69f00", "#efbd52"),
];

const CHART_CSS: &str = include_str!("chart.css");

/// The style of a page, its own part given: colours as variables, switched by the reader's setting; always light on paper.
pub fn page_css(own: &str) -> String {
    let variables = |pick: fn(&(&str, &str, &str)) -> String| COLOURS.iter().map(pick).collect::<String>();
    let light = variables(|(name, light, _)| format!("--{name}:{light};"));
    let dark = variables(|(name, _, dark)| format!("--{name}:{dark};"));
    let switch = format!("@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}");
    format!(":root{{color-scheme:light;{light}}}\n{switch}\n{own}\n{CHART_CSS}")
}

/// The style of a single figure: light, without variables, which many SVG programs do not know.
pub fn chart_css_light() -> String {
    COLOURS.iter().fold(CHART_CSS.to_owned(), |css, (name, light, _)| css.replace(&format!("var(--{name})"), light))
}
