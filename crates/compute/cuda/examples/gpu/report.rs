//! One table and one JSON file.

use serde_json::{Value, json};
use std::path::Path;

/// Measurements and verdicts.
#[derive(Default)]
pub struct Report {
    device: String,
    /// Bytes a second of a copy, read and written. It bounds memory-bound kernels.
    pub bandwidth: Option<f64>,
    lines: Vec<Line>,
}

#[derive(Default)]
struct Line {
    part: &'static str,
    what: String,
    seconds: Option<f64>,
    bytes: f64,
    flop: f64,
    tokens: usize,
    /// Bytes.
    memory: Option<usize>,
    /// The verdict, if there is one.
    right: Option<bool>,
    said: String,
}

/// The least work of an operation.
#[derive(Clone, Copy, Default)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: f64,
    /// Additions and multiplications.
    pub flop: f64,
}

/// Time and memory of a model's work on tokens.
#[derive(Clone, Copy)]
pub struct Pace {
    pub seconds: f64,
    pub tokens: usize,
    /// Additions and multiplications; 0 if they are not counted.
    pub flop: f64,
    /// The most bytes of the device in use meanwhile, by any process.
    pub memory: usize,
}

/// The median time; of an even number, the larger middle one.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

impl Report {
    /// Names the device that is measured.
    pub fn name(&mut self, device: &str) {
        device.clone_into(&mut self.device);
    }

    /// Adds the time of some work.
    pub fn time(&mut self, part: &'static str, what: &str, seconds: f64, work: Work) {
        let Work { bytes, flop } = work;
        self.lines.push(Line {
            part,
            what: what.into(),
            seconds: Some(seconds),
            bytes,
            flop,
            ..Line::default()
        });
    }

    /// Adds a model's speed. If another part has measured the same work, the line has the ratio of
    /// their times.
    pub fn pace(&mut self, part: &'static str, what: &str, pace: Pace, said: &str) {
        let Pace { seconds, tokens, flop, memory } = pace;
        let (what, said) = (what.into(), said.into());
        let (seconds, memory) = (Some(seconds), Some(memory));
        self.lines.push(Line {
            part,
            what,
            seconds,
            flop,
            tokens,
            memory,
            said,
            ..Line::default()
        });
    }

    /// Adds a remark.
    pub fn remark(&mut self, part: &'static str, what: &str, said: &str) {
        self.lines.push(Line { part, what: what.into(), said: said.into(), ..Line::default() });
    }

    /// Adds a verdict with its explanation.
    pub fn verdict(&mut self, part: &'static str, what: &str, verdict: Result<String, String>) {
        let right = Some(verdict.is_ok());
        let said = verdict.unwrap_or_else(|said| said);
        self.lines.push(Line { part, what: what.into(), right, said, ..Line::default() });
    }

    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.lines.iter().all(|line| line.right != Some(false))
    }

    /// Writes `gpu.md` and `gpu.json`.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("gpu.md"), self.table() + "\n")?;
        std::fs::write(directory.join("gpu.json"), format!("{:#}\n", self.json()))
    }

    /// Operations a second of the fastest product, which bounds the others.
    fn peak(&self) -> Option<f64> {
        let speeds = self.lines.iter().filter_map(|line| Some(line.flop / line.seconds?));
        speeds.max_by(f64::total_cmp).filter(|&peak| peak > 0.0)
    }

    /// The least time that the work takes at the measured speeds of memory and tensor core.
    fn bound(&self, line: &Line) -> Option<f64> {
        if line.bytes == 0.0 && line.flop == 0.0 {
            return None;
        }
        let by_memory = line.bytes / self.bandwidth?;
        let by_tensor_core = if line.flop == 0.0 { 0.0 } else { line.flop / self.peak()? };
        Some(by_memory.max(by_tensor_core))
    }

    /// The time as a multiple of the time of the first part that did the same work: above 1 it is
    /// slower.
    fn ratio(&self, line: &Line) -> Option<f64> {
        let first = self.lines.iter().find(|first| first.tokens > 0 && first.what == line.what)?;
        (first.part != line.part).then_some(line.seconds? / first.seconds?)
    }

    /// All of it as Markdown.
    pub fn table(&self) -> String {
        let mut rows = vec![
            format!("{}\n", self.device),
            "| part | what | time, us | GB/s | TFLOP/s | of the bound | tokens/s | GiB | ratio | |"
                .into(),
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |".into(),
        ];
        for line in &self.lines {
            let number = |number: Option<f64>, digits| {
                number.map(|number| format!("{number:.digits$}")).unwrap_or_default()
            };
            let per_second = |amount: f64, unit: f64| {
                line.seconds.filter(|_| amount > 0.0).map(|s| amount / s / unit)
            };
            let share = line
                .seconds
                .and_then(|seconds| Some(format!("{:.0} %", 100.0 * self.bound(line)? / seconds)));
            let said = match line.right {
                None => line.said.clone(),
                Some(true) => format!("right: {}", line.said),
                Some(false) => format!("wrong: {}", line.said),
            };
            rows.push(format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                line.part,
                line.what,
                number(line.seconds.map(|seconds| seconds * 1e6), 1),
                number(per_second(line.bytes, 1e9), 0),
                number(per_second(line.flop, 1e12), 1),
                share.unwrap_or_default(),
                number(per_second(line.tokens as f64, 1.0), 0),
                number(line.memory.map(|bytes| bytes as f64 / f64::from(1 << 30)), 1),
                number(self.ratio(line), 2),
                said.replace('|', "/").replace('\n', " ")
            ));
        }
        rows.join("\n")
    }

    fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "part": line.part, "what": line.what, "seconds": line.seconds,
                "bytes": line.bytes, "flop": line.flop,
                "bound_seconds": line.seconds.and(self.bound(line)),
                "tokens": line.tokens, "memory_bytes": line.memory, "ratio": self.ratio(line),
                "right": line.right, "said": line.said,
            })
        };
        json!({
            "device": self.device, "bandwidth_bytes_per_s": self.bandwidth,
            "peak_flop_per_s": self.peak(),
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with the name of an earlier part's line has the ratio of their times. Being slow is
    /// never wrong.
    #[test]
    fn opponents_stand_in_the_same_table_with_their_ratio_and_memory() {
        let mut report = Report::default();
        let pace = |seconds, memory| Pace { seconds, tokens: 6400, flop: 0.0, memory };
        report.time("bf16", "prefill", 5.0, Work::default());
        report.pace("models", "prefill", pace(0.5, 3 << 30), "");
        report.pace("transformers", "prefill", pace(0.75, 1 << 29), "SDPA | torch");
        report.pace("transformers", "prefill", pace(0.25, 1 << 29), "once more");
        report.pace("TRL", "a step", pace(2.0, 0), "alone");
        report.remark("TRL", "another", "not measured");
        let table = report.table();
        for row in [
            "| models | prefill | 500000.0 |  |  |  | 12800 | 3.0 |  |  |",
            "| transformers | prefill | 750000.0 |  |  |  | 8533 | 0.5 | 1.50 | SDPA / torch |",
            "| transformers | prefill | 250000.0 |  |  |  | 25600 | 0.5 | 0.50 | once more |",
            "| TRL | a step | 2000000.0 |  |  |  | 3200 | 0.0 |  | alone |",
            "| TRL | another |  |  |  |  |  |  |  | not measured |",
        ] {
            assert!(table.lines().any(|line| line == row), "{row}\n{table}");
        }
        let columns = |line: &str| line.matches('|').count();
        let mut lines = table.lines().skip_while(|line| !line.starts_with('|'));
        let heading = columns(lines.next().unwrap());
        assert!(lines.all(|line| columns(line) == heading), "{table}");
        assert!(report.is_right());
        let json = report.json();
        assert_eq!(json["lines"][2]["ratio"], 1.5);
        assert_eq!(json["lines"][2]["memory_bytes"], 1 << 29);
        report.verdict("models", "bits", Err("they differ".into()));
        assert!(!report.is_right() && report.table().contains("wrong: they differ"));
    }
}
