//! Gates, whoever wrote them: the file, the start, the operator; and that none of them fails open.

pub(crate) mod acts;
pub(crate) mod brought;
pub(crate) mod fail_closed;
pub(crate) mod fail_closed_doors;
pub(crate) mod gates_mcp;
pub(crate) mod judged;
pub(crate) mod matrix;
pub(crate) mod served;
