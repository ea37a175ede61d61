//! What settings promise: who overrides whom, and what is refused.

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn flags_go_before_the_environment_before_the_file_before_defaults() {
    let (_folder, path) = file("listen = \"127.0.0.1:1\"\nlog = \"debug\"\ndrain_seconds = 5");
    let env = |name: &str| match name {
        "HOLDPOINT_LISTEN" => Some("127.0.0.1:2".to_owned()),
        "HOLDPOINT_LOG_FORMAT" => Some("json".to_owned()),
        "HOLDPOINT_DATA" => Some(String::new()),
        &_ => None,
    };
    let flags = Settings { listen: Some("127.0.0.1:3".into()), ..Settings::default() };

    let config = Config::resolve(&flags, &env, Some(&path)).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.origin("listen"), Origin::Flag);
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.origin("log_format"), Origin::Env);
    assert_eq!(config.log, "debug");
    assert_eq!((config.drain_seconds, config.origin("drain_seconds")), (5, Origin::File));
    assert_eq!(config.data, Path::new("./holdpoint-data"), "an empty variable is not set");
    assert_eq!(config.origin("data"), Origin::Default);

    let config = Config::resolve(&Settings::default(), &env, Some(&path)).unwrap();
    assert_eq!(config.listen.port(), 2);
    let config = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap();
    assert_eq!(config.listen.port(), 1);
}

#[test]
fn k7_a_database_or_a_policy_that_was_named_by_nothing_is_refused_by_name() {
    for (variable, name) in [("HOLDPOINT_STORE", "store"), ("HOLDPOINT_POLICY", "policy")] {
        let lost = |asked: &str| (asked == variable).then(String::new);
        let refused = Config::resolve(&Settings::default(), &lost, None).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{variable}: `` is not ")), "{refused}");
        assert!(refused.contains("unset it"), "{refused}");
        let (_folder, path) = file(&format!("{name} = \"\""));
        let refused = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("`{name}` in ")), "{refused}");
        let flags = match name {
            "store" => Settings { store: Some(String::new()), ..Settings::default() },
            _ => Settings { policy: Some(String::new()), ..Settings::default() },
        };
        let refused = Config::resolve(&flags, &nothing, None).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("--{name}: `` is not ")), "{refused}");
        // Who names it all the same has said it.
        let (_folder, path) = file(&format!("{name} = \"/named\""));
        Config::resolve(&Settings::default(), &lost, Some(&path)).unwrap();
    }
    // `audit --store` has no value: what the environment names stands.
    let flags = Settings { store: Some(OWN_LOG.into()), ..Settings::default() };
    let env = |name: &str| (name == "HOLDPOINT_STORE").then(|| "postgres://one/db".to_owned());
    let config = Config::resolve(&flags, &env, None).unwrap();
    assert_eq!(config.store.as_deref(), Some("postgres://one/db"));
    assert_eq!(Config::resolve(&flags, &nothing, None).unwrap().store, None);
}

#[test]
fn a_path_in_the_file_is_meant_from_where_the_file_is() {
    let (folder, path) = file("data = \"store\"\nkeys = \"/etc/keys.toml\"");
    let config = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap();
    assert_eq!(config.data, folder.path().join("store"));
    assert_eq!(config.keys_path(), Path::new("/etc/keys.toml"));
    let flags = Settings { data: Some("here".into()), ..Settings::default() };
    let config = Config::resolve(&flags, &nothing, None).unwrap();
    assert_eq!(config.keys_path(), Path::new("here/keys.toml"));
}

#[test]
fn a_wrong_value_is_told_with_its_place() {
    let env = |name: &str| (name == "HOLDPOINT_LISTEN").then(|| "everywhere".to_owned());
    let error = Config::resolve(&Settings::default(), &env, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "HOLDPOINT_LISTEN: `everywhere` is not an address such as `127.0.0.1:4653`"
    );
    let flags = Settings { server: Some("ftp://x".into()), ..Settings::default() };
    let error = Config::resolve(&flags, &nothing, None).unwrap_err();
    assert!(error.to_string().starts_with("--server: `ftp://x` is not"), "{error}");
}

#[test]
fn a_settings_file_that_is_not_understood_is_told_by_its_line_and_without_what_is_in_it() {
    for wrong in [
        "store = \"postgres://h:SECRET@db/h",
        "stor = \"postgres://h:SECRET@db/h\"",
        "store = [\"postgres://h:SECRET@db/h\"]",
        "webhook_secret = \"SECRET",
        "webhook_secret = 5353535353",
    ] {
        let (_folder, path) = file(&format!("log = \"info\"\n{wrong}\n"));
        let error = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap_err();
        let mut told = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            told.push_str(&next.to_string());
            cause = next.source();
        }
        assert!(told.contains(": line 2: ") && !told.contains("SECRET"), "{wrong}: {told}");
        assert!(!told.contains("5353"), "{wrong}: {told}");
    }
}

#[test]
fn an_unknown_setting_and_a_missing_file_are_errors() {
    let (folder, path) = file("lisen = \"127.0.0.1:1\"");
    let error = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap_err();
    assert!(error.to_string().contains("line 1: unknown field `lisen`"), "{error}");
    let absent = folder.path().join("absent.toml");
    let error = Config::resolve(&Settings::default(), &nothing, Some(&absent)).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
}

#[test]
fn the_dump_is_toml_with_origins_and_without_secrets() {
    let flags = Settings {
        api_key: Some("hp_very_secret".into()),
        data: Some("a \"b\"".into()),
        server: Some("127.0.0.1:9".into()),
        webhook_url: Some("http://u:very_secret@127.0.0.1/x?token=very_secret&very_secret".into()),
        store: Some("postgres://u:very_secret@127.0.0.1/x?sslpassword=very_secret".into()),
        ..Settings::default()
    };
    let config = Config::resolve(&flags, &nothing, None).unwrap();
    let named = Settings { server: Some("http://u:very_secret@host:9".into()), ..flags.clone() };
    let named = Config::resolve(&named, &nothing, None).unwrap();
    for text in [config.dump(), named.dump(), format!("{config:?}")] {
        assert!(!text.contains("very_secret"), "{text}");
        assert!(text.contains("# --api-key"), "{text}");
    }
    let again: Settings = toml::from_str(&config.dump()).unwrap();
    assert_eq!(again.data.as_deref(), Some("a \"b\""));
    assert_eq!(again.server.as_deref(), Some("http://127.0.0.1:9"));
}

#[test]
fn the_dump_has_the_people_of_the_settings_file() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("holdpoint.toml");
    let people =
        "[people.\"ada l\"]\ngroups = [\"finance\"]\nroles = [\"director\"]\n[people.bob]\n";
    fs::write(&file, people).unwrap();
    let config = Config::resolve(&Settings::default(), &nothing, Some(&file)).unwrap();
    let dump = config.dump();
    assert!(dump.contains("holdpoint.toml"), "{dump}");
    let again: Settings = toml::from_str(&dump).unwrap();
    assert_eq!(again.people, config.people);
    assert_eq!(again.people["ada l"].groups, ["finance"]);
}

#[test]
fn no_form_of_an_address_tells_its_password() {
    for address in [
        "postgres://u:SECRET@db.internal/h?durability=single",
        "postgres://db.internal/h?user=u&password=SECRET",
        "postgres://db.internal/h?sslpassword=SECRET&user=u",
        "host=db.internal user=u password=SECRET",
    ] {
        assert!(!masked(address).contains("SECRET"), "{}", masked(address));
    }
    assert_eq!(masked("postgres://db/h?durability=single"), "postgres://db/h?durability=single");
}

#[test]
fn k7_a_variable_that_nearly_names_a_setting_is_refused_and_what_others_set_is_not() {
    let checked = |name: &str| refuse_misspelt(std::iter::once(name.to_owned()));
    for (mistyped, meant) in [
        ("HOLDPOINT_KEY", "HOLDPOINT_KEYS"),
        ("HOLDPOINT_POLCY", "HOLDPOINT_POLICY"),
        ("HOLDPOINT_ENVIROMENT", "HOLDPOINT_ENVIRONMENT"),
        ("HOLDPOINT_FOUREYES", "HOLDPOINT_FOUR_EYES"),
        ("HOLDPOINT_Keys", "HOLDPOINT_KEYS"),
        ("HOLDPOINT_CONFG", "HOLDPOINT_CONFIG"),
        ("HOLDPOINT_STOER", "HOLDPOINT_STORE"),
        ("HOLDPOINT_ENV", "HOLDPOINT_ENVIRONMENT"),
        ("HOLDPOINT_POLICY_FILE", "HOLDPOINT_POLICY"),
        ("HOLDPOINT_KEYS_PATH", "HOLDPOINT_KEYS"),
        ("HOLDPOINT_DATADIR", "HOLDPOINT_DATA"),
        ("HOLDPOINT_WEBHOOK", "HOLDPOINT_WEBHOOK_URL"),
        ("HOLDPOINT_LISTEN_ADDR", "HOLDPOINT_LISTEN"),
        ("holdpoint_policy", "HOLDPOINT_POLICY"),
        ("HOLDPOINT_KEYFILE", "HOLDPOINT_KEYS"),
        ("HOLDPOINT_CONF", "HOLDPOINT_CONFIG"),
        ("HOLPOINT_KEYS", "HOLDPOINT_KEYS"),
        ("HOLD_POINT_KEYS", "HOLDPOINT_KEYS"),
        ("HOLDPOINTKEYS", "HOLDPOINT_KEYS"),
        (" HOLDPOINT_POLICY", "HOLDPOINT_POLICY"),
    ] {
        let refused = checked(mistyped).unwrap_err().to_string();
        assert!(refused.contains(mistyped) && refused.contains(meant), "{refused}");
    }
    for name in [
        "HOLDPOINT_KEYS",
        "HOLDPOINT_CONFIG",
        "HOLDPOINT_MOVE_TO",
        "HOLDPOINT_FAILPOINT",
        // What a cluster sets where a service is called as we are.
        "HOLDPOINT_PORT",
        "HOLDPOINT_PORT_4653_TCP_ADDR",
        "HOLDPOINT_SERVICE_HOST",
        "HOLDPOINT_SERVICE_PORT_GRPC",
        "HOLDPOINT_STORE_PORT",
        "HOLDPOINT_STORE_SERVICE_HOST",
        "HOLDPOINT_PATH",
        "HOLDPOINT_KERNEL",
        "HOLDPOINT_TEST_STORE",
        "CHECKPOINT_DATA",
        "KEYS",
        "PATH",
    ] {
        checked(name).unwrap();
    }
}

#[test]
fn of_a_command_that_signs_only_its_program_is_told() {
    let signer = Some("curl -H 'Authorization: Bearer SECRET' https://signer.internal/sign".into());
    let flags = Settings { audit_signer: signer, ..Settings::default() };
    let dump = Config::resolve(&flags, &nothing, None).unwrap().dump();
    assert!(dump.contains("curl ********") && !dump.contains("SECRET"), "{dump}");
}

#[test]
fn a_server_is_named_without_what_nobody_would_heed() {
    for (named, is_one) in [
        ("127.0.0.1:4653", true),
        ("http://holdpoint.internal:4653/", true),
        ("http://holdpoint.internal/behind/a/path", false),
        ("http://holdpoint.internal/?key=x", false),
    ] {
        let flags = Settings { server: Some(named.into()), ..Settings::default() };
        assert_eq!(Config::resolve(&flags, &nothing, None).is_ok(), is_one, "{named}");
    }
}

#[test]
fn k7_a_value_of_blanks_is_refused_whoever_said_it() {
    for name in ["environment", "data", "api_key", "keys", "push_allow"] {
        let variable = format!("HOLDPOINT_{}", name.to_uppercase());
        let env = |asked: &str| (asked == variable).then(|| " \t".to_owned());
        let refused = Config::resolve(&Settings::default(), &env, None).unwrap_err().to_string();
        assert!(refused.starts_with(&variable) && refused.contains("blanks"), "{refused}");
        let (_folder, path) = file(&format!("{name} = \"  \""));
        let refused = Config::resolve(&Settings::default(), &nothing, Some(&path)).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("`{name}` in ")), "{refused}");
    }
    let flags = Settings { environment: Some(" ".into()), ..Settings::default() };
    assert!(Config::resolve(&flags, &nothing, None).is_err());
}

#[test]
fn k7_an_environment_that_is_typed_as_nothing_does_not_take_the_place_of_one_that_is_set() {
    let env = |asked: &str| (asked == "HOLDPOINT_ENVIRONMENT").then(|| "production".to_owned());
    let flags = Settings { environment: Some(String::new()), ..Settings::default() };
    let refused = Config::resolve(&flags, &env, None).unwrap_err().to_string();
    assert!(refused.starts_with("--environment"), "{refused}");
}

#[test]
fn k7_an_environment_that_no_gate_could_list_is_refused() {
    let resolved = |text: &str| {
        let flags = Settings { environment: Some(text.into()), ..Settings::default() };
        Config::resolve(&flags, &nothing, None)
    };
    for odd in [
        "\"production\"",
        "'production'",
        "\u{200b}production",
        "pro\u{ad}duction",
        "\u{ff50}roduction",
        "pr\u{43e}duction",
        "production,staging",
        "production # live",
    ] {
        let refused = resolved(odd).unwrap_err().to_string();
        assert!(refused.starts_with("--environment"), "{odd}: {refused}");
    }
    for good in ["production", " Production\r\n", "eu-west/prod_2.b", "生产"] {
        assert_eq!(resolved(good).unwrap().environment.as_deref(), Some(good.trim()), "{good}");
    }
}

#[test]
fn a_settings_file_that_is_a_pipe_is_read_where_it_is_named_and_what_has_no_end_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let pipe = here.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let writes = pipe.clone();
    let writer = std::thread::spawn(move || fs::write(writes, "four_eyes = true\n").unwrap());
    let config = Config::resolve(&Settings::default(), &nothing, Some(&pipe)).unwrap();
    writer.join().unwrap();
    assert!(config.four_eyes);
    let endless = Path::new("/dev/zero");
    assert!(Config::resolve(&Settings::default(), &nothing, Some(endless)).is_err());
}

#[test]
fn what_no_caller_could_use_is_no_public_url_and_no_host() {
    for (url, is_one) in [
        ("https://agents.example", true),
        ("http://[::1]:4653", true),
        ("https://agents.example/behind", true),
        ("nonsense", false),
        ("https://agents.example:99999", false),
        ("https://agents.example?x=1", false),
    ] {
        let flags = Settings { public_url: Some(url.into()), ..Settings::default() };
        assert_eq!(Config::resolve(&flags, &nothing, None).is_ok(), is_one, "{url}");
    }
    for (hosts, is_one) in [
        ("localhost,127.0.0.1", true),
        ("*", true),
        ("[::1], hooks.internal", true),
        ("", false),
        (", ,", false),
        ("hooks.internal:8080", false),
        ("http://hooks.internal/x", false),
    ] {
        let flags = Settings { push_allow: Some(hosts.into()), ..Settings::default() };
        assert_eq!(Config::resolve(&flags, &nothing, None).is_ok(), is_one, "{hosts}");
    }
}
