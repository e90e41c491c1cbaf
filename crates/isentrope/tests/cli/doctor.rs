//! What `doctor` reports.

use crate::program::{Scratch, emulated, isentrope, stderr, stdout_of};
use crate::train_ranks::Launcher;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

#[test]
fn json_is_one_object_with_sane_values() {
    let report: Value =
        serde_json::from_str(&stdout_of(&mut isentrope(&["doctor", "--json", "--threads", "2"]))).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["threads"], 2);
    let (total, available) =
        (report["memory_bytes"].as_u64().unwrap(), report["memory_available_bytes"].as_u64().unwrap());
    assert!(available > 0 && available <= total && total >= 64 << 20, "{available} of {total}");
    assert!((1..=65536).contains(&report["cores"].as_u64().unwrap()));
    assert!(report["instruction_sets_available"].as_array().unwrap().contains(&report["instruction_set"]));
    let speeds = report["linear"].as_array().unwrap();
    assert_eq!(speeds.len(), 2);
    for speed in speeds {
        let gflop = speed["gflop_per_s"].as_f64().unwrap();
        assert!(gflop > 0.01 && gflop < 1e6, "{speed}");
    }
    let bandwidth = report["memory_bandwidth_gb_per_s"].as_f64().unwrap();
    assert!(bandwidth > 0.05 && bandwidth < 1e5, "{bandwidth}");
    assert_eq!(report["hub_token"], false);
    for part in report["optional"].as_array().unwrap() {
        assert!(part["available"].is_boolean() && !part["why"].as_str().unwrap().is_empty());
    }
    // Where there is a sandbox, it holds.
    let attempts = report["sandbox"]["self_test"].as_array().unwrap();
    assert_eq!(report["sandbox"]["tier"].is_string(), attempts.len() > 25, "{}", report["sandbox"]);
    assert!(attempts.iter().all(|attempt| attempt["held"] == true), "{}", report["sandbox"]);
}

/// With so many threads, and more of them.
#[test]
fn more_is_measured_when_it_is_asked_for() {
    let report: Value = serde_json::from_str(&stdout_of(&mut isentrope(&[
        "doctor",
        "--json",
        "--measure",
        "--threads",
        "2",
    ])))
    .unwrap();
    let speeds = report["measured"]["cpu"].as_array().unwrap();
    assert_eq!(speeds.iter().map(|speed| speed["threads"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for speed in speeds {
        for (key, least) in [
            ("training_gflop_per_s", 0.01),
            ("decoding_gflop_per_s", 0.01),
            ("memory_bandwidth_gb_per_s", 0.05),
        ] {
            let value = speed[key].as_f64().unwrap();
            assert!(value > least && value < 1e6, "{speed}");
        }
    }
}

/// What an emulated GPU is measured to do is nobody's idea of a GPU.
#[cfg(target_os = "linux")]
#[test]
fn an_emulated_gpu_is_measured_and_called_one() {
    let text = stdout_of(&mut emulated(&["doctor", "--measure", "--threads", "1"]));
    let from =
        text.find("  GPU 0: emulated; these are the emulator's speeds").unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = text[from..].lines().skip(1).take_while(|line| line.starts_with("    ")).collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines.iter().all(|line| line.ends_with(" (emulated)")), "{text}");
    for what in [
        "copy, reading",
        "from locked",
        "to locked",
        "f32 products of 64",
        "bf16 products of 64, own",
        "a launch",
    ] {
        assert!(lines.iter().any(|line| line.trim().starts_with(what)), "{what}: {text}");
    }
}

/// One report for all ranks, with what each of them has.
#[test]
fn ranks_are_shown_under_a_launcher() {
    let scratch = Scratch::new();
    for launcher in Launcher::installed() {
        let launched = |arguments: &[&str]| {
            let mut command = launcher.ranks(2, isentrope(arguments).env("ISENTROPE_THREADS", "1"));
            command.current_dir(scratch.path("")).output().unwrap()
        };
        let output = launched(&["doctor", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ranks = report["ranks"]["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 2);
        for (number, rank) in ranks.iter().enumerate() {
            assert_eq!(rank["threads"], 1);
            assert!(rank["training_gflop_per_s"].as_f64().unwrap() > 0.01, "{rank}");
            assert!(rank["memory_bytes"].as_u64().unwrap() <= report["memory_bytes"].as_u64().unwrap() / 2);
            assert_eq!(rank["neighbours"][0]["rank"], 1 - number);
            assert!(rank["neighbours"][0]["gb_per_s"].as_f64().unwrap() > 0.001, "{rank}");
        }
        assert_eq!(report["ranks"]["without_directory"], json!([]));
        let text = String::from_utf8(launched(&["doctor"]).stdout).unwrap();
        assert!(
            text.contains("  ranks             2 over ") && text.contains("shared directory  yes"),
            "{text}"
        );
        assert_eq!(text.matches("isentrope 0").count(), 1, "{text}");
        assert_eq!(scratch.names(), [""; 0]);
    }
}

#[test]
fn text_names_the_same_things_and_no_secret() {
    let mut command = isentrope(&["doctor"]);
    let text = stdout_of(command.env("HF_TOKEN", "hf_secret").env("ISENTROPE_THREADS", "1"));
    for part in [
        "instruction set   ",
        "threads           1 on",
        "memory",
        "GFLOP/s",
        "with a token",
        "code sandbox",
        "Python            ",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("hf_secret"));
}

/// On any machine: what there is for CUDA, or why there is none, and never a panic.
#[test]
fn cuda_is_there_or_doctor_says_what_is_missing() {
    let scratch = Scratch::new();
    let mut command = isentrope(&["doctor", "--json", "--threads", "1"]);
    let report: Value =
        serde_json::from_str(&stdout_of(command.env("XDG_CACHE_HOME", scratch.path("cache")))).unwrap();
    let cuda = &report["cuda"];
    assert_ne!(cuda["driver"].is_object(), cuda["no_driver"].is_object(), "{cuda}");
    if cuda["no_driver"].is_object() {
        assert!(cuda["no_driver"]["why"].as_str().unwrap().contains("NVIDIA"), "{cuda}");
    } else {
        assert!(cuda["driver"]["gpus"][0]["memory_bytes"].as_u64().unwrap() > 1 << 30, "{cuda}");
    }
    let names: Vec<&Value> =
        cuda["libraries"].as_array().unwrap().iter().map(|search| &search["library"]).collect();
    assert_eq!(names, ["NVRTC", "cuBLASLt"]);
    let parts = report["optional"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    assert_eq!(part("GPU")["available"], cuda["driver"].is_object());
    for name in ["NVRTC", "cuBLASLt"] {
        assert!(part(name)["why"].as_str().unwrap().len() > 20, "{parts:?}");
    }
}

/// A file that is no library is named with what is wrong with it, and the way to a right one.
#[test]
fn a_library_that_does_not_load_is_named_with_the_reason() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("named")).unwrap();
    scratch.file("named/libnvrtc.so.13", "not a library");
    let mut command = isentrope(&["doctor"]);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("XDG_CACHE_HOME", scratch.path("cache"));
    let text = stdout_of(
        command.env("ISENTROPE_CUDA_LIBRARIES", scratch.path("named")).env("ISENTROPE_THREADS", "1"),
    );
    let line = text.lines().find(|line| line.contains("libnvrtc.so.13")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("(ISENTROPE_CUDA_LIBRARIES): not taken, "), "{line}");
    assert!(line.contains("another NVRTC") || line.contains("isentrope doctor --install-cuda"), "{line}");
}

#[test]
fn libraries_for_cuda_are_fetched_from_the_index_that_is_named() {
    let scratch = Scratch::new();
    let index = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/simple", index.local_addr().unwrap());
    let wheel = |library: &str| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file(format!("nvidia/cu13/lib/{library}"), zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(b"made up").unwrap();
        zip.finish().unwrap().into_inner()
    };
    let packages =
        ["nvidia_cuda_nvrtc", "nvidia_cublas"].into_iter().zip(["libnvrtc.so.13", "libcublasLt.so.13"]);
    let mut pages = HashMap::new();
    for (package, library) in packages {
        let bytes = wheel(library);
        let mut digest = isentrope_files::Digest::sha256();
        digest.update(&bytes);
        let file = format!("{package}-13.5.37-py3-none-manylinux_2_27_{}.whl", std::env::consts::ARCH);
        let page = json!({ "files": [{ "filename": file, "url": format!("/{file}"), "hashes": { "sha256": digest.hex() } }] });
        pages.insert(format!("/simple/{}/", package.replace('_', "-")), page.to_string().into_bytes());
        pages.insert(format!("/{file}"), bytes);
    }
    std::thread::spawn(move || {
        for stream in index.incoming() {
            let mut stream = stream.unwrap();
            let lines: Vec<String> = BufReader::new(&stream)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let path = lines[0].split(' ').nth(1).unwrap();
            let body = &pages[path];
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        }
    });
    let install = |url: &str| {
        let mut command = isentrope(&["doctor", "--install-cuda"]);
        command.env_clear().env("XDG_CACHE_HOME", scratch.path("cache")).env("PIP_INDEX_URL", url);
        command.output().unwrap()
    };
    // A machine with a driver for CUDA 12 asks for other packages; no test machine is known to be one.
    let output = install(&url);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let directory = std::path::PathBuf::from(scratch.path("cache/isentrope/cuda/libraries"));
    for (package, spelled, library) in [
        ("nvidia-cuda-nvrtc", "nvidia_cuda_nvrtc", "libnvrtc.so.13"),
        ("nvidia-cublas", "nvidia_cublas", "libcublasLt.so.13"),
    ] {
        assert!(
            text.contains(&format!(
                "{package} 13.5.37: installed, its SHA-256 is the index's; {library} in "
            )),
            "{text}"
        );
        let file = directory.join(format!("{spelled}-13.5.37")).join(library);
        assert_eq!(std::fs::read(file).unwrap(), b"made up");
    }
    // What was made up does not load, and that is said.
    assert!(
        text.contains("  NVRTC             no: ")
            && text.contains("(isentrope doctor --install-cuda): not taken"),
        "{text}"
    );
    let again = String::from_utf8(install(&url).stdout).unwrap();
    assert!(again.contains("nvidia-cublas 13.5.37: was there already"), "{again}");
    // No network.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = install(&format!("http://{nobody}/simple"));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains(&format!("error: http://{nobody}: ")) && said.contains("ISENTROPE_CUDA_LIBRARIES"),
        "{said}"
    );
}
