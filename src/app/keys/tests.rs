//! What the keys file promises: whose a key is, what it holds, and who is mistaken for nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::change::base64url;
use super::*;
use crate::kernel::{Role, Roles};

const NOW: &str = "2026-11-15T03:17:58Z";

fn nobody() -> BTreeSet<String> {
    BTreeSet::new()
}

fn shown(bearer: &str) -> Shown<'_> {
    Shown { bearer: Some(bearer), on_behalf_of: None }
}

fn who(keys: &Keys, bearer: &str) -> Result<(String, Roles), Refusal> {
    let who = keys.principal(shown(bearer), &nobody(), Millis(1), "grpc")?;
    Ok((who.id, who.roles))
}

fn make(path: &Path, new: &NewKey) -> Result<String, KeysError> {
    Keys::make(path, new, &nobody(), NOW)
}

#[test]
fn k8_a_key_that_a_clock_behind_makes_anew_is_not_older_than_the_end_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let made = |again, created: &str| {
        let new = NewKey { again, ..NewKey::of("ada", Role::User) };
        Keys::make(&path, &new, &nobody(), created).unwrap();
        Keys::load(&path).unwrap().list()[0].created.clone()
    };
    // Whole seconds are those of earlier builds, and taken for as much older.
    assert_eq!(made(false, "2026-11-15T03:00:00Z"), "2026-11-15T03:00:00.001Z");
    Keys::remove(&path, "ada", NOW).unwrap();
    assert_eq!(made(true, "2026-11-15T03:17:00Z"), "2026-11-15T03:17:58.001Z");
    Keys::remove(&path, "ada", NOW).unwrap();
    assert_eq!(made(true, "2026-11-15T03:18:00.5Z"), "2026-11-15T03:18:00.5Z");
}

#[test]
fn a_key_is_known_by_its_secret_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/keys.toml");
    let ada = Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let bob = Keys::add(&path, "bob@example.org", Role::Admin, NOW).unwrap();
    assert_ne!(ada, bob);
    let keys = Keys::load(&path).unwrap();
    assert_eq!(who(&keys, &ada), Ok(("ada".into(), Role::User.into())));
    assert_eq!(who(&keys, &bob), Ok(("bob@example.org".into(), Role::Admin.into())));
    let hashes = keys.list().iter().map(|key| key.sha256.as_str());
    for wrong in
        ["", "ada", "hp_", ada.trim_end_matches(char::is_alphanumeric)].into_iter().chain(hashes)
    {
        assert_eq!(who(&keys, wrong), Err(Refusal::UnknownKey), "{wrong}");
    }
    assert_eq!(who(&Keys::default(), &ada), Err(Refusal::UnknownKey));
    let nothing = Shown { bearer: None, ..shown("") };
    let silent = keys.principal(nothing, &nobody(), Millis(1), "grpc");
    assert_eq!(silent.map(|who| who.id), Err(Refusal::Unauthenticated), "no key was shown");
}

#[test]
fn a_secret_has_its_form_and_is_not_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let secret = Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let digits = secret.strip_prefix(PREFIX).unwrap();
    assert_eq!(digits.len(), 43);
    assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(digits) && text.contains("[[key]]"), "{text}");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn base64url_spells_as_the_standard_does() {
    for (bytes, text) in
        [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"\xfb\xff", "-_8")]
    {
        assert_eq!(base64url(bytes), text);
    }
}

#[test]
fn names_are_checked_and_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let taken = Keys::add(&path, "ada", Role::Admin, NOW).unwrap_err();
    assert!(matches!(taken, KeysError::Taken(_)), "{taken}");
    let reserved = ["local", "Local", "timer", "fork", "file", "File", "-"];
    let long = "x".repeat(65);
    for name in ["", "a b", "a\nb", "ä", &long].into_iter().chain(reserved) {
        assert!(Keys::add(&path, name, Role::User, NOW).is_err(), "{name}");
        let person = NewKey { person: Some(name.into()), ..NewKey::of("laptop", Role::User) };
        assert!(make(&path, &person).is_err(), "of {name}");
    }
    let unknown = Keys::remove(&path, "bob", NOW).unwrap_err();
    assert!(matches!(unknown, KeysError::Unknown(_)), "{unknown}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    Keys::remove(&path, "ada", NOW).unwrap();
    assert_eq!(Keys::load(&path).unwrap().list(), []);
}

#[test]
fn a_key_that_was_called_file_before_that_meant_the_file_halt_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let key = Keys::add(&path, "older", Role::User, NOW).unwrap();
    let text = fs::read_to_string(&path).unwrap().replace("\"older\"", "\"file\"");
    fs::write(&path, text).unwrap();
    let keys = Keys::load(&path).unwrap();
    assert_eq!(who(&keys, &key).unwrap(), ("file".into(), Role::User.into()));
}

#[test]
fn several_keys_of_one_person_are_that_person() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let laptop = Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let phone = NewKey { person: Some("ada".into()), ..NewKey::of("phone", Role::Approver) };
    let phone = make(&path, &phone).unwrap();
    let keys = Keys::load(&path).unwrap();
    assert_eq!(who(&keys, &laptop).unwrap(), ("ada".into(), Role::User.into()));
    assert_eq!(who(&keys, &phone).unwrap(), ("ada".into(), Role::Approver.into()));
    let known = keys.principal(shown(&phone), &nobody(), Millis(1), "grpc").unwrap().known;
    assert_eq!(known.credential, Credential::Key("phone".into()));
    // A name that is one person's is nobody else's, as a key or as a person.
    for (name, person) in [("x", "phone"), ("phone", "bob"), ("ada", "bob")] {
        let new = NewKey { person: Some(person.into()), ..NewKey::of(name, Role::User) };
        let refused = make(&path, &new).unwrap_err();
        let is_told = matches!(refused, KeysError::Belongs { .. } | KeysError::Taken(_));
        assert!(is_told, "{name} of {person}: {refused}");
    }
}

#[test]
fn names_that_differ_only_in_case_are_refused_when_they_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let settings = BTreeSet::from(["bob".to_owned()]);
    for (name, person) in [("Ada", None), ("phone", Some("ADA")), ("Bob", None), ("x", Some("boB"))]
    {
        let new = NewKey { person: person.map(str::to_owned), ..NewKey::of(name, Role::User) };
        let refused = Keys::make(&path, &new, &settings, NOW).unwrap_err();
        assert!(matches!(refused, KeysError::LooksLike { .. }), "{name}, {person:?}: {refused}");
    }
    // A file of an earlier build that has both opens, as two people, and that is said.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n{}", text.replace("\"ada\"", "\"Ada\""))).unwrap();
    let keys = Keys::load(&path).unwrap();
    assert_eq!(keys.look_alikes(&nobody()), [("Ada".to_owned(), "ada".to_owned())]);
}

#[test]
fn whoever_comes_by_a_name_that_was_taken_away_is_said_to_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let phone = NewKey { person: Some("ada".into()), ..NewKey::of("phone", Role::User) };
    make(&path, &phone).unwrap();
    Keys::remove(&path, "phone", NOW).unwrap();
    make(&path, &phone).expect("Ada is still here");
    Keys::remove(&path, "phone", NOW).unwrap();
    Keys::remove(&path, "ada", NOW).unwrap();
    for name in ["ada", "ADA"] {
        let refused = Keys::add(&path, name, Role::User, NOW).unwrap_err();
        assert!(matches!(refused, KeysError::Retired { .. }), "{refused}");
        assert!(refused.to_string().contains("--again"), "{refused}");
    }
    let refused = make(&path, &phone).unwrap_err();
    assert!(matches!(refused, KeysError::Retired { .. }), "{refused}");
    make(&path, &NewKey { again: true, ..NewKey::of("ada", Role::User) }).unwrap();
    make(&path, &phone).unwrap();
}

#[test]
fn a_key_is_good_until_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let expires = Some("1970-01-01T00:00:01Z".to_owned());
    let ada = make(&path, &NewKey { expires, ..NewKey::of("ada", Role::User) }).unwrap();
    let keys = Keys::load(&path).unwrap();
    let at = |ms| keys.principal(shown(&ada), &nobody(), Millis(ms), "grpc");
    assert!(at(999).is_ok());
    assert_eq!(at(1_000), Err(Refusal::KeyExpired("ada".into())));
    assert!(keys.has_ended(Millis(999), Millis(1_000)));
    assert!(!keys.has_ended(Millis(1_000), Millis(2_000)), "that is known already");
    assert!(keys.knows("ada", true, Millis(999)) && !keys.knows("ada", true, Millis(1_000)));
}

#[test]
fn only_a_service_speaks_for_others_and_only_for_people_who_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ada = Keys::add(&path, "ada", Role::User, NOW).unwrap();
    let desk = NewKey { kind: KeyKind::Service, ..NewKey::of("desk", Role::User) };
    let desk = make(&path, &desk).unwrap();
    let settings = BTreeSet::from(["bob".to_owned(), "eve".to_owned()]);
    Keys::add(&path, "eve", Role::User, NOW).unwrap();
    Keys::remove(&path, "eve", NOW).unwrap();
    let keys = Keys::load(&path).unwrap();
    let speaks = |bearer: &str, person: Option<&str>| {
        let shown = Shown { bearer: Some(bearer), on_behalf_of: person };
        let who = keys.principal(shown, &settings, Millis(1), "grpc");
        who.map(|who| (who.id, who.known.assurance)).map_err(|refusal| refusal.code())
    };
    assert_eq!(speaks(&ada, None), Ok(("ada".into(), Assurance::Proven)));
    assert_eq!(speaks(&desk, None), Ok(("desk".into(), Assurance::Model)));
    assert_eq!(speaks(&desk, Some("ada")), Ok(("ada".into(), Assurance::Vouched)));
    assert_eq!(speaks(&desk, Some("bob")), Ok(("bob".into(), Assurance::Vouched)));
    assert_eq!(speaks(&ada, Some("bob")), Err("auth.forbidden"));
    assert_eq!(speaks(&ada, Some("ada")), Err("auth.forbidden"));
    // Nobody, another service, somebody whose key was taken away.
    for nobody in ["", "mallory", "desk", "local", "eve", "Ada"] {
        assert_eq!(speaks(&desk, Some(nobody)), Err("auth.person_unknown"), "{nobody}");
    }
    let of = NewKey { person: Some("ada".into()), ..NewKey::of("x", Role::User) };
    let of = NewKey { kind: KeyKind::Service, ..of };
    assert!(matches!(make(&path, &of), Err(KeysError::ServiceOfPerson)));
}

#[test]
fn keys_of_an_earlier_build_are_personal_and_keep_what_they_could_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let entry = |name: &str, role: &str| {
        let sha = hash(name);
        format!(
            "[[key]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{sha}\"\ncreated = \"\"\n"
        )
    };
    fs::write(&path, entry("ada", "user") + &entry("ops", "admin")).unwrap();
    let keys = Keys::load(&path).unwrap();
    let admin = [Role::User, Role::Operator, Role::Admin].into_iter().collect();
    assert_eq!(who(&keys, "ada"), Ok(("ada".into(), Role::User.into())));
    assert_eq!(who(&keys, "ops"), Ok(("ops".into(), admin)));
    let known = keys.principal(shown("ada"), &nobody(), Millis(1), "grpc").unwrap().known;
    assert_eq!(known.assurance, Assurance::Proven);
    Keys::add(&path, "bob", Role::Admin, NOW).unwrap();
    let keys = Keys::load(&path).unwrap();
    assert_eq!(who(&keys, "ops"), Ok(("ops".into(), admin)), "written anew, it is the same");
}

#[test]
fn a_file_that_no_one_could_have_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let sha = "0".repeat(64);
    let entry = |name: &str, sha: &str| {
        format!("[[key]]\nname = \"{name}\"\nrole = \"user\"\nsha256 = \"{sha}\"\ncreated = \"\"\n")
    };
    let ada = || entry("ada", &sha);
    for text in [
        "nonsense".to_owned(),
        entry("ada", "short"),
        ada() + &ada(),
        entry("a b", &sha),
        ada().replace("user", "root"),
        ada().replace("role = \"user\"", "roles = [\"root\"]"),
        ada().replace("role = \"user\"", "roles = []"),
        ada().replace("role = \"user\"\n", ""),
        ada() + "roles = [\"user\"]\n",
        ada() + "person = \"local\"\n",
        ada() + "person = \"bob\"\nkind = \"service\"\n",
        ada() + "kind = \"robot\"\n",
        ada() + "expires = \"soon\"\n",
        ada() + "workflows = [\"\"]\n",
    ] {
        fs::write(&path, &text).unwrap();
        assert!(Keys::load(&path).is_err(), "{text}");
    }
}
