//! Bytes that a page carries compressed: the plotting library, long series.

use crate::{Error, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::{Compression, GzBuilder};
use serde_json::Value;
use std::io::Write;

/// Text under a name, which the page's script gets by `await unpacked(name)`.
#[derive(Clone, Debug)]
pub struct Packed {
    name: &'static str,
    base64: String,
}

/// plotly.js, compressed; assets/README.md has its origin and licence.
const PLOTLY: &[u8] = include_bytes!("../../assets/plotly.min.js.gz");

impl Packed {
    /// The source of plotly.js, under the name `plotly`.
    pub fn plotly() -> Self {
        Self { name: "plotly", base64: BASE64_STANDARD.encode(PLOTLY) }
    }

    /// Compresses a value as JSON, to the same bytes every time. The name becomes an HTML element's
    /// id, and must be safe as one.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn new(name: &'static str, value: &Value) -> Result<Self> {
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        let packed = gzip.write_all(value.to_string().as_bytes()).and_then(|()| gzip.finish());
        let packed = packed
            .map_err(|e| Error::Refused(format!("a part of the page cannot be compressed: {e}")))?;
        Ok(Self { name, base64: BASE64_STANDARD.encode(packed) })
    }

    /// The element that holds the text. Its type makes browsers treat it as data and not run it.
    pub(super) fn html(&self) -> String {
        let Self { name, base64 } = self;
        format!("<script type=\"application/gzip\" id=\"packed-{name}\">{base64}</script>\n")
    }
}

/// The JavaScript function that returns packed text.
pub(super) const UNPACKED: &str = r#"async function unpacked(name) {
  if (!globalThis.DecompressionStream) throw new Error("this browser cannot unpack data: it is from before 2023");
  const base64 = document.getElementById("packed-" + name).textContent;
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn what_is_packed_comes_back_and_is_the_same_every_time() {
        let value = Value::from("</script>é");
        let packed = Packed::new("a", &value).unwrap();
        assert_eq!(packed.base64, Packed::new("a", &value).unwrap().base64);
        let mut text = String::new();
        let bytes = BASE64_STANDARD.decode(&packed.base64).unwrap();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "\"</script>é\"");
        assert!(packed.html().starts_with("<script type=\"application/gzip\" id=\"packed-a\">"));
    }

    #[test]
    fn the_plotting_library_unpacks_to_the_script_that_was_vendored() {
        let mut source = String::new();
        GzDecoder::new(PLOTLY).read_to_string(&mut source).unwrap();
        assert!(source.starts_with("/**\n* plotly.js v3.0.1\n"), "{:?}", source.get(..40));
        assert_eq!(source.len(), 4_653_932);
    }
}
