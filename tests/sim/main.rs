//! Whole engines, three of them, over one store, by chance: one seed is one run, to the byte, and whatever must hold is
//! looked at after each. Called as a test it plays as many as a test run has time for; called by hand as many as one
//! likes, in pieces that can be taken up again:
//!
//! ```text
//! cargo test --test holdpoint-sim -- --seeds 1000000 --kept target/sim.next
//! cargo test --test holdpoint-sim -- --from 1055 --seeds 1 --steps 12 --told
//! ```
//!
//! What fails is played again with fewer and fewer steps, and the shortest is told with the command that plays it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test, and a command at a terminal"
)]

mod cast;
mod checker;
mod dice;
mod flows;
mod people;
mod play;

#[path = "../it/support/clock.rs"]
#[expect(dead_code, reason = "others wait for its sleepers")]
mod clock;

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use checker::{Outcome, Seen};
use play::{Play, STEPS, Store};

/// What a test run plays.
const SEEDS: u64 = 2_000;
/// Seeds that fail before no more are looked for.
const FAILURES_MAX: usize = 5;
/// Seeds after which the next one is kept in a file.
const PIECE: u64 = 1_000;

/// How long a seed may take, which takes some milliseconds: one that turns in a circle is told like any other fault.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a test does: what is wrong, if anything is.
type Test = fn() -> Result<(), String>;

/// What is played as a test, by its name.
const TESTS: [(&str, Test); 6] = [
    ("every_answer_counts_once_whatever_happens_to_whom", || rounds(&Wish::default())),
    // A seed that was found by playing many: others wrote while somebody watched.
    ("e1_a_watcher_is_told_of_what_others_wrote_as_well", || {
        rounds(&Wish { from: 646_963, seeds: 4, ..Wish::default() })
    }),
    ("a_seed_is_one_run_to_the_byte", one_run_to_the_byte),
    ("j10_a_store_that_acknowledges_what_it_does_not_have_is_found_out", liar),
    ("j10_a_store_that_goes_back_is_noticed_and_nothing_else_is_lost", forgetful),
    ("faults_that_it_was_shown_to_find_can_be_planted_again", planted),
];

/// What somebody wants played.
#[derive(Debug, Clone)]
struct Wish {
    from: u64,
    seeds: u64,
    steps: usize,
    /// Where the next seed is kept, for whoever goes on.
    kept: Option<String>,
    /// Whether everything that was written is told.
    told: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self { from: 1, seeds: SEEDS, steps: STEPS, kept: None, told: false }
    }
}

/// Plays a seed.
fn played(seed: u64, steps: usize) -> Outcome {
    played_on(seed, steps, Store::True)
}

/// The same, over a store that may not be one. What does not end is played once more: the machine may have been stopped.
fn played_on(seed: u64, steps: usize, store: Store) -> Outcome {
    let ends = played_within(PATIENCE, seed, steps, store);
    let ends = ends.or_else(|| played_within(PATIENCE, seed, steps, store));
    let wrong = vec!["it does not come to an end".into()];
    ends.unwrap_or_else(|| Outcome { wrong, ..Outcome::default() })
}

fn played_within(patience: Duration, seed: u64, steps: usize, store: Store) -> Option<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let played = async {
        let mut play = Play::new(seed, store).await;
        for number in 0..steps {
            play.step(number).await;
        }
        play.finish().await;
        checker::checked(&play).await
    };
    runtime.block_on(async { tokio::time::timeout(patience, played).await.ok() })
}

/// Plays many, on every core; what failed, and what was seen.
fn many(from: u64, to: u64, steps: usize) -> (Vec<u64>, Seen) {
    let (next, enough) = (AtomicU64::new(from), AtomicBool::new(false));
    let (failed, seen) = (Mutex::new(Vec::new()), Mutex::new(Seen::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !enough.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= to {
                        return;
                    }
                    let outcome = played(seed, steps);
                    let mut all = seen.lock().unwrap();
                    *all = all.and(outcome.seen);
                    if !outcome.wrong.is_empty() {
                        let mut failed = failed.lock().unwrap();
                        failed.push(seed);
                        enough.store(failed.len() >= FAILURES_MAX, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    (failed.into_inner().unwrap(), seen.into_inner().unwrap())
}

/// Plays what is wanted, piece by piece.
fn rounds(wish: &Wish) -> Result<(), String> {
    let kept = wish.kept.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let first = kept.and_then(|text| text.trim().parse().ok()).unwrap_or(wish.from);
    let (mut from, end, mut seen) = (first, wish.from + wish.seeds, Seen::default());
    while from < end {
        let to = end.min(from + PIECE);
        let (failed, more) = many(from, to, wish.steps);
        seen = seen.and(more);
        if !failed.is_empty() {
            return Err(shortest(&failed, wish.steps));
        }
        from = to;
        if let Some(path) = &wish.kept {
            std::fs::write(path, from.to_string()).map_err(|error| format!("{path}: {error}"))?;
        }
        println!("{from} of {end}: {seen:?}");
    }
    if wish.told {
        println!("{}", played(wish.from, wish.steps).written);
    }
    let is_worth = [seen.answers, seen.done, seen.altered, seen.told, seen.recovered, seen.watched];
    if wish.seeds >= SEEDS && first == wish.from && is_worth.contains(&0) {
        return Err(format!("hardly anything happened: {seen:?}"));
    }
    Ok(())
}

/// The one that fails after the fewest steps, with what is wrong.
fn shortest(failed: &[u64], steps: usize) -> String {
    let fails = |seed: u64| {
        (0..=steps).find_map(|steps| {
            let outcome = played(seed, steps);
            (!outcome.wrong.is_empty()).then_some((steps, seed, outcome))
        })
    };
    let Some((steps, seed, outcome)) =
        failed.iter().filter_map(|seed| fails(*seed)).min_by_key(|(steps, ..)| *steps)
    else {
        return format!("of {failed:?} none fails again: a seed is not one run");
    };
    format!(
        "{} seeds failed: {failed:?}\nthe shortest is\n  cargo test --test holdpoint-sim -- --from {seed} --seeds 1 \
         --steps {steps} --told\n{}\n{}",
        failed.len(),
        outcome.wrong.join("\n"),
        outcome.written
    )
}

fn one_run_to_the_byte() -> Result<(), String> {
    for seed in [3, 7, 11] {
        let [one, other] =
            [played(seed, STEPS), played(seed, STEPS)].map(|outcome| outcome.written);
        if one != other || one.lines().count() < 20 {
            return Err(format!("seed {seed}:\n{one}\n{other}"));
        }
    }
    Ok(())
}

fn liar() -> Result<(), String> {
    let is_found = |seed: u64| {
        let outcome = played_on(seed, STEPS, Store::Lying);
        outcome.wrong.iter().any(|wrong| wrong.starts_with("lost: "))
    };
    if (1..20).any(is_found) { Ok(()) } else { Err("whoever checks sees nothing".into()) }
}

/// Seeds in which the store goes back in time.
const FORGETFUL: u64 = 200;

fn forgetful() -> Result<(), String> {
    let mut seen = Seen::default();
    for seed in 1..=FORGETFUL {
        let outcome = played_on(seed, STEPS, Store::Forgetful);
        if !outcome.wrong.is_empty() {
            return Err(format!("seed {seed}: {}\n{}", outcome.wrong.join("\n"), outcome.written));
        }
        seen = seen.and(outcome.seen);
    }
    if seen.rewound == 0 { Err(format!("it never went back: {seen:?}")) } else { Ok(()) }
}

/// The faults of `tests/sim/planted`, which `tests/sim/planted/run` plants in the code by hand.
fn planted() -> Result<(), String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sim/planted");
    let files = std::fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let patches: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect();
    for patch in &patches {
        let mut git = Command::new("git");
        let git = git.args(["apply", "--check"]).arg(patch).current_dir(env!("CARGO_MANIFEST_DIR"));
        let git = git.output();
        let told = git.map_err(|error| format!("git: {error}"))?;
        if !told.status.success() {
            return Err(format!("{}: {}", patch.display(), String::from_utf8_lossy(&told.stderr)));
        }
    }
    if patches.len() == 5 { Ok(()) } else { Err(format!("five were planted, not {patches:?}")) }
}

/// Runs what is named, or everything; told as a test runner expects it.
fn tests(names: &[String], is_exact: bool) -> ExitCode {
    let is_named = |name: &str| {
        names.is_empty()
            || names
                .iter()
                .any(|word| if is_exact { word == name } else { name.contains(word.as_str()) })
    };
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| is_named(name)) {
        match test() {
            Ok(()) => println!("test {name} ... ok"),
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let (mut wish, mut is_wish, mut is_exact) = (Wish::default(), false, false);
    let (mut names, mut words) = (Vec::new(), std::env::args().skip(1));
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse::<u64>().ok());
        match word.as_str() {
            "--list" => {
                let is_ignored = std::env::args().any(|word| word == "--ignored");
                for (name, _) in TESTS.iter().filter(|_| !is_ignored) {
                    println!("{name}: test");
                }
                return ExitCode::SUCCESS;
            }
            "--from" | "--seeds" | "--steps" => {
                let Some(number) = number() else {
                    eprintln!("{word} takes a number");
                    return ExitCode::from(2);
                };
                is_wish = true;
                match word.as_str() {
                    "--from" => wish.from = number,
                    "--seeds" => wish.seeds = number,
                    _ => wish.steps = usize::try_from(number).unwrap_or(STEPS),
                }
            }
            "--kept" => (wish.kept, is_wish) = (words.next(), true),
            "--told" => (wish.told, is_wish) = (true, true),
            "--exact" => is_exact = true,
            // What a test runner says beside: it is all the same here.
            flag if flag.starts_with("--") => {}
            name => names.push(name.to_owned()),
        }
    }
    if !is_wish {
        return tests(&names, is_exact);
    }
    match rounds(&wish) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}
