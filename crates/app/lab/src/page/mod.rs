//! Web pages of one file: they fetch nothing, follow the reader's light or dark system, and can be
//! read on a phone and in print.

mod packed;

pub use packed::Packed;

use crate::visible::visible;
use std::fmt::Write;

/// The style that all pages share.
const STYLE: &str = include_str!("page.css");

/// A page in the making.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// CSS beyond the style that all pages share.
    pub style: String,
    /// HTML below the title.
    pub body: String,
    /// Text that it carries compressed.
    pub packed: Vec<Packed>,
    /// JavaScript that runs once the page is loaded.
    pub script: String,
}

impl Page {
    /// The page as HTML. A policy tells browsers that it may load nothing.
    pub fn html(&self) -> String {
        let Self { title, style, body, packed, script } = self;
        let title = legible(title);
        let unpacked = if packed.is_empty() { "" } else { packed::UNPACKED };
        let packed: String = packed.iter().map(Packed::html).collect();
        let mut html = String::new();
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
             name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<meta \
             http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             img-src data: blob:; \
             base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"color-scheme\" content=\"light \
             dark\">\n<title>{title}</title>\n<style>\n{STYLE}{style}</style>\n\
             </head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n{packed}<script>\n{unpacked}{script}</script>\n</body>\n\
             </html>\n"
        );
        html
    }
}

/// Text escaped for HTML, for contents and attributes.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// Foreign text as HTML. Hidden characters are written out: a direction mark would reorder the text
/// around it, and a terminal would obey control characters.
pub fn legible(text: &str) -> String {
    escaped(&visible(text))
}

/// Like [`legible`], with text between backticks as code.
pub fn with_code(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some((before, (code, after))) =
        rest.split_once('`').and_then(|(before, rest)| Some((before, rest.split_once('`')?)))
    {
        let _ = write!(html, "{}<code>{}</code>", legible(before), legible(code));
        rest = after;
    }
    html + &legible(rest)
}

/// The start of a box that scrolls sideways, by keyboard too, if its table is wider than the page;
/// `label` describes its content, as HTML.
pub fn scrolling(label: &str) -> String {
    format!("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">")
}

/// A table in such a box: `heads` and `rows` are HTML.
pub fn table(label: &str, class: &str, heads: &str, rows: &str) -> String {
    format!(
        "{}<table class=\"{class}\">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n",
        scrolling(label)
    )
}

/// The heads of columns.
pub fn heads(titles: &[&str]) -> String {
    titles.iter().map(|title| format!("<th>{title}</th>")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_marks_and_control_characters_are_written_out() {
        let text = "a\u{202e}b\u{2066}<c>\u{1b}[31m\u{7}é";
        assert_eq!(legible(text), "a\\u{202e}b\\u{2066}&lt;c&gt;\\u{1b}[31m\\u{7}é");
        let page = Page { title: text.into(), ..Page::default() }.html();
        assert!(
            !page.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}'])
                && page.contains("&lt;c&gt;")
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(
            with_code("say `law <RUN>` or `x`, not `"),
            "say <code>law &lt;RUN&gt;</code> or <code>x</code>, not `"
        );
        assert_eq!((with_code("``"), with_code("a<b")), ("<code></code>".into(), "a&lt;b".into()));
    }

    #[test]
    fn no_text_leaves_its_place() {
        assert_eq!(escaped("<b a='1' c=\"2\">&"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
    }
}
