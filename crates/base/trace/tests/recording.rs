//! A recording and its file, in one test, as a process has one recorder.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_trace::{
    Argument, DEVICE_THREAD, Origin, Trace, begin, call, count, end, is_on, name_thread, on_device,
    span, untimed,
};
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};

fn written(trace: &Trace) -> Value {
    let mut text = String::new();
    let origin = Origin { rank: 3, process: "rank 3", device: "a \"GPU\"" };
    trace
        .write::<()>(origin, &mut |part| {
            text += part;
            Ok(())
        })
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

fn events<'a>(file: &'a Value, name: &str) -> Vec<&'a Value> {
    file["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == name).collect()
}

#[test]
fn spans_are_recorded_on_their_threads_from_begin_to_end() {
    drop(span("before"));
    count("before", 1);
    untimed(1);
    assert!(!is_on() && end().is_none());

    begin(100);
    let open = span("open");
    {
        let _outer = span("outer").with("tokens", 7).named("kernel", "norm").with("no room", 1);
        let _inner = call("inner");
        count("live", 4);
        let began = Instant::now();
        on_device(
            "norm",
            began,
            Duration::from_micros(250),
            [Some(("bytes", Argument::Number(9))), None],
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                name_thread("verification");
                drop(span("verify"));
            });
        });
        thread::sleep(Duration::from_millis(2));
    }
    let trace = end().unwrap();
    drop(open);
    drop(span("after"));
    assert_eq!((trace.dropped, trace.untimed, trace.gaps().next()), (0, 0, None));

    let file = written(&trace);
    for name in ["before", "open", "after"] {
        assert!(events(&file, name).is_empty(), "{name}");
    }
    let (outer, inner) = (events(&file, "outer")[0], events(&file, "inner")[0]);
    assert_eq!(
        (&outer["ph"], &outer["cat"], &outer["pid"]),
        (&"X".into(), &"phase".into(), &3.into())
    );
    assert_eq!(outer["args"], serde_json::json!({ "tokens": 7, "kernel": "norm" }));
    assert_eq!((&inner["cat"], &inner["tid"]), (&"call".into(), &outer["tid"]));
    let time = |event: &Value, key: &str| event[key].as_f64().unwrap();
    assert!(time(outer, "ts") <= time(inner, "ts") && time(outer, "dur") >= time(inner, "dur"));
    assert!((2000.0..1e7).contains(&time(inner, "dur")), "{inner}");
    assert_eq!(events(&file, "live")[0]["args"], serde_json::json!({ "value": 4 }));
    let device = events(&file, "norm")[0];
    assert_eq!((&device["tid"], &device["dur"]), (&DEVICE_THREAD.into(), &250.0.into()));
    let verify = events(&file, "verify")[0];
    assert_ne!(verify["tid"], outer["tid"]);
    let named = |thread: &Value| {
        let names = events(&file, "thread_name");
        names.iter().find(|name| name["tid"] == *thread).unwrap()["args"]["name"].clone()
    };
    assert_eq!(
        (named(&verify["tid"]), named(&device["tid"])),
        ("verification".into(), "device: a \"GPU\"".into())
    );

    // Events beyond the limit are counted; the spans around them stay.
    begin(3);
    let outer = span("outer");
    (0..5).for_each(|_| drop(call("launch")));
    drop(span("late"));
    drop(outer);
    untimed(2);
    untimed(3);
    let trace = end().unwrap();
    let names: Vec<&str> = trace.events.iter().map(|event| event.name).collect();
    assert_eq!((&names[..], trace.dropped), (&["launch", "launch", "late", "outer"][..], 3));
    let file = written(&trace);
    let cut = file["otherData"]["cut"].as_str().unwrap();
    assert!(cut.contains("room for 3 events, and 3 more"), "{cut}");
    assert_eq!(events(&file, cut)[0]["ph"], "i");
    let missing = file["otherData"]["untimed"].as_str().unwrap();
    assert!(missing.starts_with("5 launches and copies are not in the trace"), "{missing}");
    assert_eq!(events(&file, missing)[0]["ph"], "i");
    assert_eq!(trace.gaps().collect::<Vec<_>>(), [cut, missing]);
}
