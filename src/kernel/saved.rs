//! Saved: a run as it is kept beside its journal, so that a long one is taken up without all of it being folded again.
//! It is no stored form that anybody has to keep reading: another kernel does not know it, and folds the journal.
//! Nor is it believed over the journal: it says up to which version it goes, whoever keeps it says of which history,
//! and `doctor` compares it.

use std::sync::Arc;

use crate::kernel::run::Run;
use crate::kernel::session_memory::Earlier;
use crate::kernel::spending::Spent;
use crate::kernel::workflow::Workflow;

/// What this kernel's sources come to. Whatever folds otherwise has another, whether anybody thought of it or not.
const KERNEL: &str = env!("HOLDPOINT_KERNEL");

/// A run as it is kept: a line with the kernel, and then the run. None where it would not come back as it is.
pub fn save(run: &Run) -> Option<String> {
    let run = folded(run.clone());
    let text = format!("{KERNEL}\n{}", serde_json::to_string(&run).ok()?);
    (read(&text, &run.workflow).as_ref() == Some(&run)).then_some(text)
}

/// The run that was kept, of this definition; none where another kernel kept it.
pub fn read(text: &str, workflow: &Arc<Workflow>) -> Option<Run> {
    let (kernel, json) = text.split_once('\n')?;
    if kernel != KERNEL {
        return None;
    }
    let mut run: Run = serde_json::from_str(json).ok()?;
    // It has a stored form of its own, and what was said of it here would count for nothing.
    run.workflow = Arc::clone(workflow);
    // K3: what somebody would be shown is what its digest says, or the journal is asked. Then whoever decides on something
    // that was put in its place says so themselves: the digest beside their answer is not that of the question.
    let mut decided_on = run.questions.values().filter(|question| question.decides());
    decided_on.all(|question| question.is_sealed(run.belongs())).then_some(run)
}

/// The same run, less what is handed to it: as its journal folds to.
pub fn folded(mut run: Run) -> Run {
    run.operator = Arc::default();
    run.noes = Arc::default();
    run.spent_beside = Spent::default();
    run.earlier = Earlier::default();
    run
}
