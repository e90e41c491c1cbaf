//! Processes that tests watch, signal and kill.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether a process is there and is no zombie.
pub fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// Whether a process has a handler of SIGINT by now.
pub fn heeds_interrupts(process: u32) -> bool {
    let output =
        Command::new("ps").args(["-o", "caught=", "-p", &process.to_string()]).output().unwrap();
    let caught = String::from_utf8(output.stdout).unwrap();
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|signals| signals & (1 << 1) != 0)
}

/// Waits for something, no longer than `patience`.
pub fn until(patience: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < patience, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for something that a process does, no longer than `patience`; it must not end meanwhile.
pub fn wait_until(patience: Duration, child: &mut Child, mut done: impl FnMut() -> bool) {
    until(patience, "nothing happened", || {
        done() || {
            assert_eq!(child.try_wait().unwrap(), None, "it ended too early");
            false
        }
    });
}

/// Waits until `reached`, or the process ends.
pub fn until_reached(child: &mut Child, reached: impl Fn() -> bool) {
    let started = Instant::now();
    while !reached() && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing happened");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Starts a command that says nothing.
pub fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Starts a command whose messages are kept.
pub fn start_heard(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Kills a process and waits for its end; whether it had not ended by itself.
pub fn kill(child: &mut Child) -> bool {
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    running
}

/// Sends a signal such as `INT`.
pub fn send(signal: &str, child: &Child) {
    send_to(signal, &child.id().to_string());
}

/// Sends a signal to a process, or to a group, which begins with `-`.
pub fn send_to(signal: &str, process: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), "--", process]).status();
    assert!(status.unwrap().success());
}
