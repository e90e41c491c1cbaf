//! A rank that errs, differs, damages or falls silent ends all ranks alike, and is named.

use super::{on_ranks, patient};
use isentrope_ranks::{Error, HostFloats, Message, Settings, Slices, Watch, World};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// One exchange of each kind, as a step of training has them.
fn step(world: &World) -> Result<(), Error> {
    world.gather(&[world.rank() as u8])?;
    let mut gradient = vec![0.5; 10_000];
    let slices = Slices::new([[10_000]], world.size());
    world.sum(&mut HostFloats::new([&mut gradient[..]]), &slices)?;
    world.share(&mut HostFloats::new([&mut gradient[..]]), &slices)?;
    world.any(false).map(drop)
}

/// Takes steps as a trainer does, until one fails.
fn train(
    world: World,
    mut before: impl FnMut(&World, usize) -> Result<(), String>,
) -> (String, Result<(), Error>) {
    let mut index = 0;
    let error = loop {
        let stepped =
            before(&world, index).and_then(|()| step(&world).map_err(|error| error.to_string()));
        if let Err(error) = stepped {
            break world.fail(&error).to_string();
        }
        index += 1;
        assert!(index < 1000, "nothing has happened");
    };
    (error, world.finish())
}

#[test]
fn an_error_on_one_rank_ends_all_with_its_cause() {
    let ended = on_ranks(4, &patient(), |world, _| {
        train(world, |world, index| {
            let full = world.rank() == 2 && index == 3;
            if full { Err("metrics.jsonl: no space left on device".into()) } else { Ok(()) }
        })
    });
    let host = isentrope_ranks::RankHost::here(1).host;
    for (error, finished) in ended {
        assert_eq!(error, format!("rank 2 ({host}): metrics.jsonl: no space left on device"));
        assert_eq!(finished, Ok(()));
    }
}

#[test]
fn after_an_error_all_can_save_together() {
    let saved = on_ranks(3, &patient(), |world, _| {
        let failed = if world.rank() == 1 { Err("no verifier".to_owned()) } else { Ok(()) };
        let error =
            failed.and_then(|()| step(&world).map_err(|error| error.to_string())).unwrap_err();
        let told = world.fail(&error);
        assert!(world.gather(b"before").is_err_and(|again| again == told));
        assert!(world.go_on());
        let moments = world.gather(&[world.rank() as u8]).unwrap();
        (told.to_string(), moments.concat(), world.finish())
    });
    for (told, moments, finished) in saved {
        assert!(told.starts_with("rank 1 (") && told.ends_with("): no verifier"), "{told}");
        assert_eq!((moments, finished), (vec![0, 1, 2], Ok(())));
    }
}

#[test]
fn an_error_that_all_have_is_told_as_one() {
    let told = on_ranks(3, &patient(), |world, _| {
        let told = world.fail("the filter left 0 of 64 prompts");
        (told, world.finish())
    });
    let all = Error::All("the filter left 0 of 64 prompts".into());
    assert!(told.iter().all(|one| *one == (all.clone(), Ok(()))));
}

#[test]
fn of_several_errors_the_first_ranks_is_told() {
    let ended = on_ranks(4, &patient(), |world, _| {
        train(
            world,
            |world, _| if world.rank() > 0 { Err(format!("{}", world.rank())) } else { Ok(()) },
        )
    });
    assert!(ended.iter().all(|(error, _)| *error == ended[0].0));
    let (error, _) = &ended[0];
    assert!(
        error.starts_with("rank 1 (") && error.ends_with(": 1 (2 other ranks have failed too)")
    );
}

#[test]
fn a_long_cause_is_cut_and_stays_text() {
    let told = on_ranks(2, &patient(), |world, _| {
        let rank = world.rank();
        train(world, |_, _| if rank == 1 { Err("ü".repeat(9000)) } else { Ok(()) }).0
    });
    assert!(told[0] == told[1] && told[0].ends_with("üü") && told[0].len() < 5000);
}

#[test]
fn a_rank_with_other_numbers_is_named() {
    let ended = on_ranks(3, &patient(), |world, _| {
        train(world, |world, index| {
            let odd = world.rank() == 1 && index == 2;
            world.note(
                &format!("metrics of step {index}"),
                if odd { b"reward 0.5" } else { b"reward 0.25" },
            );
            Ok(())
        })
    });
    for (error, finished) in ended {
        for part in ["has computed something else than rank 0 (", "metrics of step 2"] {
            assert!(error.starts_with("rank 1 (") && error.contains(part), "{error}");
        }
        assert_eq!(finished, Ok(()));
    }
}

#[test]
fn ranks_with_other_files_are_named() {
    let ended = on_ranks(3, &patient(), |world, _| {
        world.same("recipe", "3f2a").unwrap();
        let error =
            world.same("model.safetensors", if world.rank() == 2 { "b" } else { "a" }).unwrap_err();
        (error, world.finish())
    });
    assert!(
        matches!(&ended[0].0, Error::Start(said) if said.contains("has another model.safetensors than rank 0"))
    );
    assert!(ended.iter().all(|other| *other == ended[0]));
}

#[test]
fn bytes_that_are_damaged_are_noticed_and_all_end() {
    let ended = on_ranks(3, &patient(), |world, faults| {
        train(world, |world, index| {
            if world.rank() == 0 && index == 1 {
                faults.damage(0);
            }
            Ok(())
        })
    });
    for (error, finished) in &ended {
        assert!(error.contains("what came from rank 0 is not what it sent"), "{error}");
        assert_eq!((error, finished), (&ended[0].0, &Ok(())));
    }
}

/// Ranks that give up soon, with what they say then.
fn impatient(watch: Watch) -> (Settings, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let tell =
        Arc::new(move |message: Message<'_>| heard.lock().unwrap().push(message.text().to_owned()));
    (Settings { watch, tell, ..patient() }, said)
}

#[test]
fn a_rank_that_is_silent_is_named_with_what_it_did() {
    let period = Duration::from_millis(20);
    for silent in [2, 0] {
        let watch = Watch { silent: Some(Duration::from_secs(1)), period };
        let (settings, said) = impatient(watch);
        let ended = on_ranks(3, &settings, |world, faults| {
            step(&world).unwrap();
            if world.rank() == silent {
                world.report("sampling", 41, 64);
                thread::sleep(10 * period);
                faults.silence(silent);
            }
            step(&world).unwrap_err().to_string()
        });
        let said = said.lock().unwrap().clone();
        let starts = format!("rank {silent} (");
        assert!(said.iter().all(|said| said.starts_with(&starts)), "{said:?}");
        assert!(said[0].contains("s ago (sampling, 41 of 64 done): its process"), "{said:?}");
        assert!(ended.iter().all(|error| *error == said[0]), "{ended:?}");
    }
}

#[test]
fn ranks_that_wait_long_for_one_that_works_are_not_given_up() {
    let limit = Some(Duration::from_secs(1));
    let (settings, said) = impatient(Watch { silent: limit, period: Duration::from_millis(20) });
    let ended = on_ranks(2, &settings, |world, _| {
        for done in 0..20 {
            world.report("sampling", done, 20);
            if world.rank() == 1 {
                thread::sleep(Duration::from_millis(100));
            }
        }
        step(&world).and_then(|()| world.finish())
    });
    assert_eq!((ended, said.lock().unwrap().len()), (vec![Ok(()), Ok(())], 0));
}
