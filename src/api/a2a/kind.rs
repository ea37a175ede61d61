//! Kind: the kinds of no that the A2A door knows, and what each is called on every binding. What a no says beside is
//! in `errors`.

use tonic::Code;

/// What kind of no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Kind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    /// Of protocol 0.3: there is no card for known callers alone.
    ExtendedCardNotConfigured,
    VersionNotSupported,
    /// The body is no JSON.
    Parse,
    /// It is JSON, but no call.
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    /// There is no such agent or page.
    NotFound,
    Unauthenticated,
    Forbidden,
    Unavailable,
    Internal,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) rpc: i32,
    pub(super) grpc: Code,
    pub(super) http: u16,
    /// The protocol's own name, where it has one.
    pub(super) reason: Option<&'static str>,
}

impl Kind {
    pub(super) fn row(self) -> Row {
        let row = |rpc, grpc, http, reason| Row { rpc, grpc, http, reason };
        match self {
            Self::TaskNotFound => row(-32001, Code::NotFound, 404, Some("TASK_NOT_FOUND")),
            Self::TaskNotCancelable => {
                row(-32002, Code::FailedPrecondition, 400, Some("TASK_NOT_CANCELABLE"))
            }
            Self::PushNotificationNotSupported => {
                row(-32003, Code::FailedPrecondition, 400, Some("PUSH_NOTIFICATION_NOT_SUPPORTED"))
            }
            Self::UnsupportedOperation => {
                row(-32004, Code::FailedPrecondition, 400, Some("UNSUPPORTED_OPERATION"))
            }
            Self::ContentTypeNotSupported => {
                row(-32005, Code::InvalidArgument, 400, Some("CONTENT_TYPE_NOT_SUPPORTED"))
            }
            Self::ExtendedCardNotConfigured => row(
                -32007,
                Code::FailedPrecondition,
                400,
                Some("EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
            ),
            Self::VersionNotSupported => {
                row(-32009, Code::FailedPrecondition, 400, Some("VERSION_NOT_SUPPORTED"))
            }
            Self::Parse => row(-32700, Code::InvalidArgument, 400, None),
            Self::InvalidRequest => row(-32600, Code::InvalidArgument, 400, None),
            Self::MethodNotFound => row(-32601, Code::Unimplemented, 404, None),
            Self::InvalidParams => row(-32602, Code::InvalidArgument, 400, None),
            Self::NotFound => row(-32602, Code::NotFound, 404, None),
            // JSON-RPC leaves -32000 to -32099 to whoever implements it; A2A begins at -32001.
            Self::Unauthenticated => row(-32000, Code::Unauthenticated, 401, None),
            Self::Forbidden => row(-32000, Code::PermissionDenied, 403, None),
            Self::Unavailable => row(-32603, Code::Unavailable, 503, None),
            Self::Internal => row(-32603, Code::Internal, 500, None),
        }
    }
}

impl Kind {
    /// What 0.3 calls it: its SDKs know refusals over gRPC by this alone.
    pub(super) fn older_name(self) -> Option<&'static str> {
        match self {
            Self::TaskNotFound => Some("TaskNotFoundError"),
            Self::TaskNotCancelable => Some("TaskNotCancelableError"),
            Self::PushNotificationNotSupported => Some("PushNotificationNotSupportedError"),
            Self::UnsupportedOperation => Some("UnsupportedOperationError"),
            Self::ContentTypeNotSupported => Some("ContentTypeNotSupportedError"),
            Self::ExtendedCardNotConfigured => Some("AuthenticatedExtendedCardNotConfiguredError"),
            Self::Parse => Some("JSONParseError"),
            Self::InvalidRequest | Self::VersionNotSupported => Some("InvalidRequestError"),
            Self::MethodNotFound => Some("MethodNotFoundError"),
            Self::InvalidParams | Self::NotFound => Some("InvalidParamsError"),
            Self::Internal => Some("InternalError"),
            Self::Unauthenticated | Self::Forbidden | Self::Unavailable => None,
        }
    }
}
