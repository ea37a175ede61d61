//! Gates that are bound to nothing, or to something that is not there.

use std::collections::BTreeSet;

use crate::definition::check::Check;
use crate::definition::mcp;
use crate::definition::source::under;

impl Check<'_> {
    /// Every gate is bound to tools that there are.
    pub(super) fn gates(&mut self) {
        let file = self.file;
        let tags: BTreeSet<String> =
            file.tools.values().flat_map(|tool| tool.tags.iter().cloned()).collect();
        let names = file.gates.iter().map(|gate| gate.name.as_str()).enumerate();
        self.unique("/gates", names);
        for (index, gate) in file.gates.iter().enumerate() {
            let pointer = under("/gates", index);
            self.name(&under(&pointer, "name"), &gate.name, true);
            for (place, tool) in gate.tools.iter().enumerate() {
                let at = under(&under(&pointer, "tools"), place);
                if mcp::reference(file, tool).is_none() {
                    self.known(&at, ("tool", "tool.unknown"), tool, file.tools.keys());
                }
            }
            for (place, tag) in gate.tags.iter().enumerate() {
                let at = under(&under(&pointer, "tags"), place);
                self.known(&at, ("tool with the tag", "tag.unknown"), tag, tags.iter());
            }
            if gate.tools.is_empty() && gate.tags.is_empty() {
                let message =
                    format!("gate `{}` is bound to nothing; expected `tools` or `tags`", gate.name);
                self.at(&pointer, "gate.unbound", message);
            }
            if gate.when.is_empty() && gate.allow_for.is_some() {
                let message = "a gate that always asks cannot be allowed for a while; give it \
                               conditions under `when`, or take `allow_for` away";
                self.at(&under(&pointer, "allow_for"), "gate.contradiction", message);
            }
            self.duration(&under(&pointer, "deadline"), gate.deadline.as_ref());
            self.duration(&under(&pointer, "allow_for"), gate.allow_for.as_ref());
        }
    }
}
