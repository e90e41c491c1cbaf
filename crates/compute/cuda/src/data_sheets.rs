//! Peaks from NVIDIA's data sheets, which estimates and measurements are held against.
//!
//! Dense products, without sparsity; f32 without tensor cores, which is how the kernels here
//! compute it.

/// A GPU as it is sold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSheet {
    /// Its name on a command line.
    pub key: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Words that the driver's name of it contains.
    words: &'static [&'static str],
    /// Memory as it is sold, in GB.
    pub memory_gb: f64,
    /// Memory as `nvidia-smi` shows it, in MiB: what firmware and error correction leave. Of the
    /// GPUs themselves, not of the data sheet (modal-labs/modal-client#2797, and listings of RTX
    /// 4090, H200 and B200 that others have published).
    pub memory_mib: usize,
    /// bf16 products summed in f32, in FLOP/s.
    pub bf16: f64,
    /// f32 on the CUDA cores, in FLOP/s.
    pub f32: f64,
    /// Bandwidth of its memory, in bytes per second.
    pub bandwidth: f64,
    /// Source of these numbers.
    pub source: &'static str,
}

const T: f64 = 1e12;
const G: f64 = 1e9;

/// All that are known. Where names of several fit a driver's, the first is meant.
pub const DATA_SHEETS: &[DataSheet] = &[
    DataSheet {
        key: "a100",
        name: "A100 80GB SXM",
        words: &["A100", "SXM", "80GB"],
        memory_gb: 80.0,
        memory_mib: 81_920,
        bf16: 312.0 * T,
        f32: 19.5 * T,
        bandwidth: 2039.0 * G,
        source: "NVIDIA A100 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "a100-40gb",
        name: "A100 40GB",
        words: &["A100", "40GB"],
        memory_gb: 40.0,
        memory_mib: 40_960,
        bf16: 312.0 * T,
        f32: 19.5 * T,
        bandwidth: 1555.0 * G,
        source: "NVIDIA A100 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "a100-pcie",
        name: "A100 80GB PCIe",
        words: &["A100", "80GB", "PCIe"],
        memory_gb: 80.0,
        memory_mib: 81_920,
        bf16: 312.0 * T,
        f32: 19.5 * T,
        bandwidth: 1935.0 * G,
        source: "NVIDIA A100 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "l40s",
        name: "L40S",
        words: &["L40S"],
        memory_gb: 48.0,
        memory_mib: 46_068,
        bf16: 362.0 * T,
        f32: 91.6 * T,
        bandwidth: 864.0 * G,
        source: "NVIDIA L40S data sheet",
    },
    DataSheet {
        key: "rtx4090",
        name: "RTX 4090",
        words: &["RTX 4090"],
        memory_gb: 24.0,
        memory_mib: 24_564,
        bf16: 165.2 * T,
        f32: 82.6 * T,
        bandwidth: 1008.0 * G,
        source: "NVIDIA Ada GPU architecture whitepaper, appendix A",
    },
    DataSheet {
        key: "h100-pcie",
        name: "H100 PCIe",
        words: &["H100", "PCIe"],
        memory_gb: 80.0,
        memory_mib: 81_559,
        bf16: 756.0 * T,
        f32: 51.0 * T,
        bandwidth: 2000.0 * G,
        source: "NVIDIA H100 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "h100",
        name: "H100 SXM",
        words: &["H100", "HBM3"],
        memory_gb: 80.0,
        memory_mib: 81_559,
        bf16: 989.0 * T,
        f32: 67.0 * T,
        bandwidth: 3350.0 * G,
        source: "NVIDIA H100 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "h200",
        name: "H200 SXM",
        words: &["H200"],
        memory_gb: 141.0,
        memory_mib: 143_771,
        bf16: 989.0 * T,
        f32: 67.0 * T,
        bandwidth: 4800.0 * G,
        source: "NVIDIA H200 Tensor Core GPU data sheet",
    },
    DataSheet {
        key: "b200",
        name: "B200",
        words: &["B200"],
        memory_gb: 180.0,
        memory_mib: 183_359,
        bf16: 2250.0 * T,
        f32: 80.0 * T,
        bandwidth: 8000.0 * G,
        source: "NVIDIA Blackwell architecture technical brief, HGX B200",
    },
];

impl DataSheet {
    /// That of this key.
    pub fn of_key(key: &str) -> Option<&'static Self> {
        DATA_SHEETS.iter().find(|sheet| sheet.key.eq_ignore_ascii_case(key))
    }

    /// That of a GPU by its driver's name, such as `NVIDIA H100 80GB HBM3`, if it is known.
    pub fn of_name(driver: &str) -> Option<&'static Self> {
        // A superchip has another GPU of a like name.
        let is_other = ["GH200", "GB200", "NVL", "MIG", "Laptop", " D"]
            .iter()
            .any(|word| driver.contains(word));
        let fits = |sheet: &&Self| sheet.words.iter().all(|word| driver.contains(word));
        DATA_SHEETS.iter().find(fits).filter(|_| !is_other)
    }

    /// The cards with so much memory.
    pub fn of_memory(gb: f64) -> impl Iterator<Item = &'static Self> {
        DATA_SHEETS.iter().filter(move |sheet| sheet.memory_gb == gb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as `nvidia-smi -L` shows them.
    #[test]
    fn drivers_names_are_told_apart() {
        for (driver, key) in [
            ("NVIDIA A100-SXM4-80GB", Some("a100")),
            ("NVIDIA A100-SXM4-40GB", Some("a100-40gb")),
            ("NVIDIA A100-PCIE-40GB", Some("a100-40gb")),
            ("NVIDIA A100 80GB PCIe", Some("a100-pcie")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA L40", None),
            ("NVIDIA GeForce RTX 4090", Some("rtx4090")),
            ("NVIDIA GeForce RTX 4090 D", None),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
            ("NVIDIA H100 80GB HBM3", Some("h100")),
            ("NVIDIA H100 PCIe", Some("h100-pcie")),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA H200 NVL", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA B200", Some("b200")),
            ("NVIDIA GB200", None),
            ("emulated", None),
        ] {
            assert_eq!(DataSheet::of_name(driver).map(|sheet| sheet.key), key, "{driver}");
        }
        assert!(DATA_SHEETS.iter().all(|sheet| DataSheet::of_key(sheet.key) == Some(sheet)));
        // A GPU sold as N GB never has N GiB or more.
        let shown = |sheet: &DataSheet| (sheet.memory_mib << 20) as f64 / sheet.memory_gb;
        assert!(
            DATA_SHEETS.iter().map(shown).all(|each| each <= f64::from(1 << 30) && each > 0.9e9)
        );
        assert_eq!(
            DataSheet::of_memory(141.0).map(|sheet| sheet.key).collect::<Vec<_>>(),
            ["h200"]
        );
    }
}
