//! Frameworks: clients that others wrote around OpenAI's API, unmodified, a process for every act: `LangChain`,
//! pydantic-ai, OpenAI's Agents SDK, Microsoft's Agent Framework and Vercel's AI SDK.
//!
//! `tests/clients/install.sh` fetches them into `target/clients`; without them these tests fail.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::python;
use crate::support::server::{Server, forget_settings};

/// Whose client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    LangChain,
    PydanticAi,
    Agents,
    Microsoft,
    Vercel,
}

impl Framework {
    fn word(self) -> &'static str {
        match self {
            Self::LangChain => "langchain",
            Self::PydanticAi => "pydantic_ai",
            Self::Agents => "agents",
            Self::Microsoft => "agent_framework",
            Self::Vercel => "vercel",
        }
    }
}

/// A person with such a client, and the conversation that it keeps for them.
pub(crate) struct User {
    framework: Framework,
    workflow: &'static str,
    folder: TempDir,
    options: Vec<&'static str>,
}

impl User {
    pub(crate) fn new(
        framework: Framework,
        workflow: &'static str,
        options: &[&'static str],
    ) -> Self {
        let folder = TempDir::new().unwrap();
        Self { framework, workflow, folder, options: options.to_vec() }
    }

    /// One act, begun.
    pub(crate) fn begin(&self, server: &Server, act: &str, words: &str) -> Child {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sdks = root.join("target/clients/frameworks");
        assert!(sdks.exists(), "run tests/clients/install.sh first");
        let mut command = if self.framework == Framework::Vercel {
            let mut command = Command::new("node");
            command.arg(root.join("tests/clients/framework_client.mjs")).arg(sdks);
            command.arg(server.url()).arg(self.workflow);
            command.arg(self.folder.path()).args([act, words]);
            command
        } else {
            let mut command = python::act("frameworks/venv", "framework_client.py");
            command.arg(server.url());
            command.arg(self.framework.word()).arg(self.workflow);
            command.arg(self.folder.path()).args([act, words]);
            command
        };
        forget_settings(&mut command);
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"] {
            command.env_remove(name);
        }
        command.args(&self.options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn act(&self, server: &Server, act: &str, words: &str) -> Value {
        let ran = self.begin(server, act, words).wait_with_output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{:?} {act} {words}: {out}\n{err}", self.framework);
        serde_json::from_str(out.lines().last().unwrap()).unwrap()
    }

    /// Types something.
    pub(crate) fn says(&self, server: &Server, words: &str) -> Value {
        self.act(server, "say", words)
    }

    /// Answers the question that came last.
    pub(crate) fn answers(&self, server: &Server, words: &str) -> Value {
        self.act(server, "answer", words)
    }
}
