//! Peaks from NVIDIA's data sheets, for estimates and to compare measurements with.
//!
//! Dense products, without sparsity; f32 without tensor cores, which is how the kernels here
//! compute it.

/// A GPU model, by its data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSheet {
    /// The GPU's name on a command line.
    pub key: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Words of the driver's name for the GPU.
    words: &'static [&'static str],
    /// Memory as sold, in GB.
    pub memory_gb: f64,
    /// Memory that `nvidia-smi` shows, in MiB: less than the sold memory by the share of firmware
    /// and error correction. These are measurements of GPUs, not of the data sheet
    /// (modal-labs/modal-client#2797, and listings of RTX 4090, H200 and B200 that others have
    /// published).
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

/// A sheet: key, name, words, GB and MiB of memory, TFLOP/s in bf16 and f32, GB/s, source.
const fn sheet(
    [key, name]: [&'static str; 2],
    words: &'static [&'static str],
    (memory_gb, memory_mib): (f64, usize),
    [bf16, f32, bandwidth]: [f64; 3],
    source: &'static str,
) -> DataSheet {
    let (bf16, f32, bandwidth) = (bf16 * 1e12, f32 * 1e12, bandwidth * 1e9);
    DataSheet { key, name, words, memory_gb, memory_mib, bf16, f32, bandwidth, source }
}

const A100: &str = "NVIDIA A100 Tensor Core GPU data sheet";
const H100: &str = "NVIDIA H100 Tensor Core GPU data sheet";
const H200: &str = "NVIDIA H200 Tensor Core GPU data sheet";
const L40S: &str = "NVIDIA L40S data sheet";
const ADA: &str = "NVIDIA Ada GPU architecture whitepaper, appendix A";
const BLACKWELL: &str = "NVIDIA Blackwell architecture technical brief, HGX B200";

/// All known data sheets. If several fit a driver's name, the first is taken.
#[rustfmt::skip]
pub const DATA_SHEETS: &[DataSheet] = &[
    sheet(["a100", "A100 80GB SXM"], &["A100", "SXM", "80GB"], (80.0, 81_920), [312.0, 19.5, 2039.0], A100),
    sheet(["a100-40gb", "A100 40GB"], &["A100", "40GB"], (40.0, 40_960), [312.0, 19.5, 1555.0], A100),
    sheet(["a100-pcie", "A100 80GB PCIe"], &["A100", "80GB", "PCIe"], (80.0, 81_920), [312.0, 19.5, 1935.0], A100),
    sheet(["l40s", "L40S"], &["L40S"], (48.0, 46_068), [362.0, 91.6, 864.0], L40S),
    sheet(["rtx4090", "RTX 4090"], &["RTX 4090"], (24.0, 24_564), [165.2, 82.6, 1008.0], ADA),
    sheet(["h100-pcie", "H100 PCIe"], &["H100", "PCIe"], (80.0, 81_559), [756.0, 51.0, 2000.0], H100),
    sheet(["h100", "H100 SXM"], &["H100", "HBM3"], (80.0, 81_559), [989.0, 67.0, 3350.0], H100),
    sheet(["h200", "H200 SXM"], &["H200"], (141.0, 143_771), [989.0, 67.0, 4800.0], H200),
    sheet(["b200", "B200"], &["B200"], (180.0, 183_359), [2250.0, 80.0, 8000.0], BLACKWELL),
];

impl DataSheet {
    /// The data sheet with this key.
    pub fn of_key(key: &str) -> Option<&'static Self> {
        DATA_SHEETS.iter().find(|sheet| sheet.key.eq_ignore_ascii_case(key))
    }

    /// The data sheet of a GPU by its driver's name, such as `NVIDIA H100 80GB HBM3`, if it is
    /// known.
    pub fn of_name(driver: &str) -> Option<&'static Self> {
        // These names belong to other GPUs with similar names.
        let is_other = ["GH200", "GB200", "NVL", "MIG", "Laptop", " D"]
            .iter()
            .any(|word| driver.contains(word));
        let fits = |sheet: &&Self| sheet.words.iter().all(|word| driver.contains(word));
        DATA_SHEETS.iter().find(fits).filter(|_| !is_other)
    }

    /// The cards with this memory.
    pub fn of_memory(gb: f64) -> impl Iterator<Item = &'static Self> {
        DATA_SHEETS.iter().filter(move |sheet| sheet.memory_gb == gb)
    }

    /// Bytes of memory of a GPU that is sold with `gb` GB: the least that the driver of a known one
    /// shows, or `gb` GiB, which is an upper bound, if none is known.
    pub fn bytes_of(gb: f64) -> usize {
        let known = Self::of_memory(gb).map(|sheet| sheet.memory_mib << 20).min();
        known.unwrap_or((gb * f64::from(1 << 30)) as usize)
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
        assert_eq!([80.0, 0.5].map(DataSheet::bytes_of), [81_559 << 20, 1 << 29]);
    }
}
