//! Packages: everything that Holdpoint is installed from, made of the binary that was just built, installed in clean
//! places and run there. `packaging/make.py` makes them; docs/packages.md has the walks that need more than this.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::server::forget_settings;

/// What is asked for, of the binary that the tests were built with.
fn made(kinds: &[&str]) -> TempDir {
    let out = tempdir().unwrap();
    let mut words = vec!["--strip", "--fast", "--only"];
    words.extend(kinds);
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let place = out.path().display().to_string();
    let arguments = ["packaging/make.py", binary, place.as_str()];
    run(Command::new("python3").args(arguments).args(words));
    out
}

/// Runs it, and shows what it said if it fails.
fn run(command: &mut Command) -> String {
    let output = ends(command);
    let (out, err) = (told(&output.stdout), told(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out
}

fn ends(command: &mut Command) -> Output {
    forget_settings(command);
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one file of that ending.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(ending));
    let first = found.next().unwrap_or_else(|| panic!("there is no {ending}"));
    assert_eq!(found.next(), None, "there are two of {ending}");
    first
}

/// The README's first command, as an installed program: it asks, is answered by somebody else, and sends.
fn decides_a_question(program: &[&OsStr], place: &Path) {
    let holdpoint = |words: &[&str]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(words).current_dir(place).env("XDG_STATE_HOME", place);
        command
    };
    let version = run(&mut holdpoint(&["--version"]));
    assert!(
        version.starts_with(concat!("holdpoint ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
    let words = ["run", "approve_and_send", "Tell the team that the release is out.", "--json"];
    let asked = ends(&mut holdpoint(&words));
    assert_eq!(asked.status.code(), Some(4), "{asked:?}");
    assert!(run(&mut holdpoint(&["inbox"])).contains("approve_and_send"));
    let answered = run(&mut holdpoint(&["respond", "1", "approve"]));
    assert!(answered.contains("Sent"), "{answered}");
    assert!(place.join("holdpoint-data").is_dir());
}

#[test]
fn a_wheel_is_installed_and_its_first_question_decided() {
    let (out, place) = (made(&["wheel"]), tempdir().unwrap());
    let venv = place.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let wheel = file(out.path(), ".whl");
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.contains("-py3-none-manylinux_2_"), "{name}");
    let pip = ["-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--quiet"];
    run(Command::new(venv.join("bin/python")).args(pip).arg(&wheel));
    decides_a_question(&[venv.join("bin/holdpoint").as_os_str()], place.path());
    let module = venv.join("bin/python");
    let told = run(Command::new(&module).args(["-m", "holdpoint", "--version"]));
    assert!(told.starts_with("holdpoint "), "{told}");
    let wrong = ends(Command::new(&module).args(["-m", "holdpoint", "nonsense"]));
    assert_eq!(wrong.status.code(), Some(2), "exit codes are the program's");
    fs::remove_file(venv.join("bin/holdpoint")).unwrap();
    let half = ends(Command::new(&module).args(["-m", "holdpoint", "--version"]));
    let said = self::told(&half.stderr);
    assert!(said.contains("--force-reinstall") && !said.contains("Traceback"), "{said}");
}

/// A project of Node's with these packages in it, and nothing of the network's.
fn node_project(packages: &[PathBuf], more: &[&str]) -> TempDir {
    let place = tempdir().unwrap();
    fs::write(place.path().join("package.json"), r#"{"name": "stranger", "private": true}"#)
        .unwrap();
    let words = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = Command::new("npm");
    npm.args(words).args(more).args(packages).current_dir(place.path());
    run(npm.env("npm_config_cache", place.path().join("cache")));
    place
}

#[test]
fn npm_packages_run_pass_signals_on_and_say_what_is_missing() {
    let out = made(&["npm"]);
    let version = env!("CARGO_PKG_VERSION");
    let main = out.path().join(format!("holdpoint-{version}.tgz"));
    let files = fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path());
    let part =
        files.into_iter().find(|it| it.to_string_lossy().contains("holdpoint-linux-")).unwrap();
    let place = node_project(&[main.clone(), part], &[]);
    let program = place.path().join("node_modules/.bin/holdpoint");
    decides_a_question(&[program.as_os_str()], place.path());

    // A signal to the shim reaches the server, which drains and says how it ended.
    let mut command = Command::new(&program);
    forget_settings(&mut command);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).current_dir(place.path());
    let mut serving =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("listening"), "{first}");
    kill_process(Pid::from_raw(serving.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let mut log = String::new();
    serving.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(serving.wait().unwrap().code(), Some(0), "{log}");
    assert!(log.contains("draining"), "{log}");

    let half = node_project(&[main], &["--omit=optional"]);
    let ended = ends(&mut Command::new(half.path().join("node_modules/.bin/holdpoint")));
    let said = told(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("@holdpoint/linux-") && said.contains("--include=optional"), "{said}");
}

#[test]
fn a_debian_package_has_the_program_its_unit_its_user_and_its_settings() {
    let (out, place) = (made(&["deb"]), tempdir().unwrap());
    let deb = file(out.path(), ".deb");
    let control = run(Command::new("dpkg-deb").arg("--field").arg(&deb));
    for line in ["Package: holdpoint", "libc6 (>= 2.", "libgcc-s1"] {
        assert!(control.contains(line), "{line}: {control}");
    }
    let conffiles = run(Command::new("dpkg-deb").args(["--info"]).arg(&deb).arg("conffiles"));
    assert_eq!(conffiles, "/etc/holdpoint/holdpoint.toml\n");
    let root = place.path().join("root");
    run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root));
    for there in [
        "usr/lib/sysusers.d/holdpoint.conf",
        "usr/share/man/man1/holdpoint.1.gz",
        "usr/share/man/man1/holdpoint-respond.1.gz",
        "usr/share/bash-completion/completions/holdpoint",
        "usr/share/doc/holdpoint/copyright",
    ] {
        assert!(root.join(there).is_file(), "{there}");
    }
    let program = root.join("usr/bin/holdpoint");
    decides_a_question(&[program.as_os_str()], place.path());
    // What the unit starts, understands the settings that come with it.
    let settings = root.join("etc/holdpoint/holdpoint.toml");
    let dumped =
        run(Command::new(&program).args(["serve", "--dump-config", "--config"]).arg(settings));
    assert!(dumped.contains("/var/lib/holdpoint"), "{dumped}");
    let unit = root.join("usr/lib/systemd/system/holdpoint.service");
    let text = fs::read_to_string(&unit).unwrap();
    // The last: what lies beside the key that signs is written, and nothing else there.
    for line in [
        "Type=notify",
        "User=holdpoint",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=-/etc/holdpoint/audit",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}");
    }
    // Where systemd is installed, it has the last word.
    if Path::new("/usr/bin/systemd-analyze").exists() {
        let here = text.replace("/usr/bin/holdpoint", &program.display().to_string());
        let copy = place.path().join("holdpoint.service");
        fs::write(&copy, here).unwrap();
        let words = ["verify", "--man=no", "--recursive-errors=no"];
        let verified = ends(Command::new("systemd-analyze").args(words).arg(&copy));
        let said = told(&verified.stderr);
        assert!(verified.status.success() && !said.contains("holdpoint.service:"), "{said}");
    }
}

#[test]
fn a_tarball_has_the_program_and_all_that_its_readme_leads_to_and_its_sum_is_right() {
    let (out, place) = (made(&["tarball"]), tempdir().unwrap());
    let tarball = file(out.path(), ".tar.gz");
    run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(out.path()));
    run(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(place.path()));
    let name = tarball.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
    let root = place.path().join(name);
    for there in
        ["LICENSE", "README.md", "completions/_holdpoint", "share/man/man1/holdpoint-run.1"]
    {
        assert!(root.join(there).is_file(), "{there}");
    }
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let links = readme.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links: Vec<_> = links.filter(|link| !link.is_empty() && !link.contains("://")).collect();
    assert!(links.contains(&"SECURITY.md"), "{links:?}");
    let lost = links.iter().find(|link| !root.join(link).exists());
    assert_eq!(lost, None, "every link of its README leads somewhere");
    decides_a_question(&[root.join("bin/holdpoint").as_os_str()], place.path());
}

#[test]
fn an_image_has_all_that_the_program_needs_and_nobody_is_root_in_it() {
    let (out, place) = (made(&["image"]), tempdir().unwrap());
    let layout = place.path().join("layout");
    fs::create_dir(&layout).unwrap();
    run(Command::new("tar").arg("-xf").arg(file(out.path(), ".oci.tar")).arg("-C").arg(&layout));
    let blob = |described: &Value| {
        let digest =
            described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        layout.join("blobs/sha256").join(digest)
    };
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let index = read(&layout.join("index.json"));
    let manifest = read(&blob(&index["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(config["config"]["User"], "10001:10001");
    assert_eq!(config["config"]["Cmd"], serde_json::json!(["serve", "--first-key"]));
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        let words = ["--no-same-owner", "-xzf"];
        run(Command::new("tar").args(words).arg(blob(layer)).arg("-C").arg(&root));
    }
    // By its own loader, with its own libraries, and no other.
    let loader =
        fs::read_dir(root.join("lib64")).or_else(|_| fs::read_dir(root.join("lib"))).unwrap();
    let loader =
        loader.map(|it| it.unwrap().path()).find(|it| it.to_string_lossy().contains("ld-linux"));
    let program = root.join("usr/bin/holdpoint");
    let machine = std::env::consts::ARCH;
    let folders = [
        format!("lib/{machine}-linux-gnu"),
        "lib64".into(),
        format!("usr/lib/{machine}-linux-gnu"),
        "lib".into(),
    ];
    let folders: Vec<_> = folders.iter().map(|it| root.join(it).display().to_string()).collect();
    let loader = loader.unwrap();
    let library_path = folders.join(":");
    let words = [
        loader.as_os_str(),
        OsStr::new("--inhibit-cache"),
        OsStr::new("--library-path"),
        OsStr::new(&library_path),
        program.as_os_str(),
    ];
    decides_a_question(&words, place.path());
    let mut listing = Command::new(&loader);
    let listed = run(listing.args(&words[1..4]).arg("--list").arg(&program));
    for line in listed.lines().filter(|line| line.contains("=>")) {
        assert!(line.contains(&root.display().to_string()), "not from the image: {line}");
    }
}

#[test]
fn what_is_no_holdpoint_is_refused_with_a_reason() {
    let out = tempdir().unwrap();
    let make = |binary: &Path| {
        let mut python = Command::new("python3");
        ends(python.arg("packaging/make.py").arg(binary).arg(out.path()))
    };
    for (binary, part) in [
        ("no/such/file", "there is no binary"),
        ("Cargo.toml", "no 64-bit Linux program"),
        ("/bin/true", "is not Holdpoint"),
    ] {
        let ended = make(Path::new(binary));
        let said = told(&ended.stderr);
        assert!(
            !ended.status.success() && said.contains(part) && !said.contains("Traceback"),
            "{said}"
        );
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "nothing is half made");
}

/// The script with all that it packs, in a place of its own.
fn checkout() -> TempDir {
    let place = tempdir().unwrap();
    run(Command::new("cp")
        .args(["-r", "packaging", "LICENSE", "README.md", "CHANGELOG.md", "ARCHITECTURE.md"])
        .args(["CONTRIBUTING.md", "SECURITY.md", "docs", "examples", "proto", "workflows"])
        .arg(place.path()));
    place
}

#[test]
fn what_is_missing_of_a_checkout_is_named_before_anything_is_made() {
    let (place, out) = (checkout(), tempdir().unwrap());
    for name in ["LICENSE", "CHANGELOG.md", "packaging/npm/holdpoint.cjs"] {
        fs::remove_file(place.path().join(name)).unwrap();
    }
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let script = place.path().join("packaging/make.py");
    let made = ends(
        Command::new("python3").arg(script).arg(binary).arg(out.path()).args(["--only", "wheel"]),
    );
    let said = told(&made.stderr);
    assert_eq!(made.status.code(), Some(1), "{said}");
    for part in ["LICENSE", "CHANGELOG.md", "packaging/npm/holdpoint.cjs", "whole checkout"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("Traceback"), "{said}");
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn a_package_that_is_cut_off_halfway_leaves_no_file_of_its_name() {
    let out = tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let place = out.path().display();
    for kind in ["wheel", "npm", "tarball", "image"] {
        // No file may be longer than a mebibyte: writing ends in the middle of it.
        let shell = format!(
            "ulimit -f 1024; trap '' XFSZ; exec python3 packaging/make.py {binary} {place} --fast --only {kind}"
        );
        let made = ends(Command::new("bash").args(["-c", &shell]));
        let said = told(&made.stderr);
        assert_eq!(made.status.code(), Some(1), "{kind}: {said}");
        assert!(said.contains("File too large") && !said.contains("Traceback"), "{kind}: {said}");
        let left: Vec<_> = fs::read_dir(out.path()).unwrap().map(|it| it.unwrap().path()).collect();
        // The smaller of npm's two is whole.
        let is_whole = |path: &&PathBuf| {
            path.ends_with(format!("holdpoint-{}.tgz", env!("CARGO_PKG_VERSION")))
        };
        assert_eq!(left.iter().filter(|path| !is_whole(path)).count(), 0, "{kind}: {left:?}");
    }
}
