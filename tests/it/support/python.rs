//! Clients that are written in Python: a process for every act, which need not import everything first
//! (`tests/clients/act.py`).

use std::path::Path;
use std::process::Command;

/// One act of a script in `tests/clients`, with what was installed in a folder of `target/clients`.
pub(crate) fn act(installed: &str, script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/clients").join(installed).join("bin/python");
    assert!(python.exists(), "run tests/clients/install.sh first");
    let clients = root.join("tests/clients");
    let mut command = Command::new(python);
    command.args(["-I", "-S"]).arg(clients.join("act.py")).arg(clients.join(script));
    command
}
