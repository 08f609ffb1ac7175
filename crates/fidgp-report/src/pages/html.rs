use crate::charts::{Drawing, HATCH, page_css, svg::escape};

const PAGE_CSS: &str = include_str!("page.css");

/// `<name class="class">inner</name>`; `inner` is markup.
pub fn tag(name: &str, class: &str, inner: &str) -> String {
    if class.is_empty() { tags(name, inner) } else { format!("<{name} class=\"{class}\">{inner}</{name}>") }
}

/// `<name>inner</name>`; `inner` is markup.
pub fn tags(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// A section with a heading and a sentence on what to look at.
pub fn section(id: &str, heading: &str, lead: &str, body: &str) -> String {
    let lead = if lead.is_empty() { String::new() } else { tag("p", "lead", &escape(lead)) };
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{lead}\n{body}\n</section>\n", escape(heading))
}

/// A figure with its caption, and a word on what could not be drawn.
pub fn figure(figure: &Drawing) -> String {
    let skipped = match figure.skipped {
        0 => String::new(),
        1 => " One point is not a finite number and is not drawn.".to_owned(),
        count => format!(" {count} points are not finite numbers and are not drawn."),
    };
    let wide = if figure.width() > 600.0 { "wide" } else { "" };
    let link = format!(" <a href=\"{0}.svg\">{0}.svg</a>", escape(&figure.id));
    let caption = format!("{}{skipped}{link}", escape(&figure.caption));
    tag("figure", wide, &format!("\n{}{}\n", figure.inline(), tags("figcaption", caption.trim()))) + "\n"
}

/// Figures side by side where there is room.
pub fn figures(all: &[Drawing]) -> String {
    tag("div", "figures", &format!("\n{}", all.iter().map(figure).collect::<String>()))
}

/// A table of texts.
pub fn grid(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    grid_of(|_| "", head, rows)
}

/// The same where all columns but the first hold numbers.
pub fn grid_of_numbers(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    grid_of(|column| if column == 0 { "" } else { "number" }, head, rows)
}

fn grid_of(class: fn(usize) -> &'static str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String = head.iter().enumerate().map(|(i, text)| tag("th", class(i), &escape(text))).collect();
    let row = |cells: Vec<String>| {
        let cells: String = cells.iter().enumerate().map(|(i, text)| tag("td", class(i), &escape(text))).collect();
        tags("tr", &cells) + "\n"
    };
    let body = tags("thead", &tags("tr", &head)) + "\n" + &tags("tbody", &rows.map(row).collect::<String>());
    format!("<div class=\"scroll\">{}</div>\n", tags("table", &body))
}

/// Something folded away.
pub fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}\n</details>\n", escape(summary))
}

/// The whole document.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<svg class=\"defs\" aria-hidden=\"true\"><defs>{HATCH}</defs></svg>\n\
         <main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        page_css(PAGE_CSS)
    )
}
