//! Proto: A2A's shapes ↔ `lf.a2a.v1`, field by field.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use prost_types::Timestamp as ProtoTime;

use crate::api::a2a::errors::{Kind as ProblemKind, Outcome, Problem};
use crate::wire::a2a as json;
use crate::wire::json::Fields;
use crate::wire::lf as pb;
use crate::wire::proto_json;

/// A call as the core takes it.
pub(super) fn send_message(call: pb::SendMessageRequest) -> Outcome<json::SendMessage> {
    let message = call.message.ok_or_else(|| Problem::invalid("message", "expected a message"))?;
    let configuration = call.configuration.unwrap_or_default();
    Ok(json::SendMessage {
        tenant: call.tenant,
        message: message_in(message)?,
        configuration: json::SendConfiguration {
            accepted_output_modes: configuration.accepted_output_modes,
            task_push_notification_config: configuration.task_push_notification_config.map(push_in),
            history_length: configuration.history_length,
            return_immediately: configuration.return_immediately,
        },
        metadata: call.metadata.map(Fields::into_map),
    })
}

pub(super) fn list_tasks(call: pb::ListTasksRequest) -> Outcome<json::ListTasks> {
    let time = |time: ProtoTime| {
        let time = Timestamp::new(time.seconds, time.nanos).ok();
        let time = time.map(|time| time.to_string());
        time.ok_or_else(|| Problem::invalid("statusTimestampAfter", "expected a time"))
    };
    Ok(json::ListTasks {
        tenant: call.tenant,
        context_id: call.context_id,
        status: state_in(call.status)?,
        page_size: call.page_size,
        page_token: call.page_token,
        history_length: call.history_length,
        status_timestamp_after: call.status_timestamp_after.map(time).transpose()?,
        include_artifacts: call.include_artifacts,
    })
}

/// A card: its JSON is that of the message.
pub(super) fn card(card: &json::AgentCard) -> Outcome<pb::AgentCard> {
    let fault = |error: &dyn std::fmt::Display| {
        Problem::new(ProblemKind::Internal, "server.fault", error.to_string())
    };
    let card = serde_json::to_value(card).map_err(|error| fault(&error))?;
    proto_json::read("lf.a2a.v1.AgentCard", card).map_err(|error| fault(&error))
}

fn state_in(state: i32) -> Outcome<json::TaskState> {
    use json::TaskState as Json;
    let known = pb::TaskState::try_from(state)
        .map_err(|_| Problem::invalid("status", "expected one of the enum's values"))?;
    Ok(match known {
        pb::TaskState::Unspecified => Json::Unspecified,
        pb::TaskState::Submitted => Json::Submitted,
        pb::TaskState::Working => Json::Working,
        pb::TaskState::Completed => Json::Completed,
        pb::TaskState::Failed => Json::Failed,
        pb::TaskState::Canceled => Json::Canceled,
        pb::TaskState::InputRequired => Json::InputRequired,
        pb::TaskState::Rejected => Json::Rejected,
        pb::TaskState::AuthRequired => Json::AuthRequired,
    })
}

fn state_out(state: json::TaskState) -> pb::TaskState {
    use json::TaskState as Json;
    match state {
        Json::Unspecified => pb::TaskState::Unspecified,
        Json::Submitted => pb::TaskState::Submitted,
        Json::Working => pb::TaskState::Working,
        Json::Completed => pb::TaskState::Completed,
        Json::Failed => pb::TaskState::Failed,
        Json::Canceled => pb::TaskState::Canceled,
        Json::InputRequired => pb::TaskState::InputRequired,
        Json::Rejected => pb::TaskState::Rejected,
        Json::AuthRequired => pb::TaskState::AuthRequired,
    }
}

/// A webhook, as this binding writes it.
pub(super) fn push(config: json::PushConfig) -> pb::TaskPushNotificationConfig {
    pb::TaskPushNotificationConfig {
        tenant: config.tenant,
        id: config.id,
        task_id: config.task_id,
        url: config.url,
        token: config.token,
        authentication: config.authentication.map(|proof| pb::AuthenticationInfo {
            scheme: proof.scheme,
            credentials: proof.credentials,
        }),
    }
}

pub(super) fn push_in(config: pb::TaskPushNotificationConfig) -> json::PushConfig {
    json::PushConfig {
        tenant: config.tenant,
        id: config.id,
        task_id: config.task_id,
        url: config.url,
        token: config.token,
        authentication: config.authentication.map(|authentication| json::PushAuthentication {
            scheme: authentication.scheme,
            credentials: authentication.credentials,
        }),
    }
}

fn message_in(message: pb::Message) -> Outcome<json::Message> {
    let role = match pb::Role::try_from(message.role) {
        Ok(pb::Role::User) => json::Role::User,
        Ok(pb::Role::Agent) => json::Role::Agent,
        Ok(pb::Role::Unspecified) | Err(_) => json::Role::Unspecified,
    };
    Ok(json::Message {
        message_id: message.message_id,
        context_id: message.context_id,
        task_id: message.task_id,
        role,
        parts: message.parts.into_iter().map(part_in).collect::<Outcome<_>>()?,
        metadata: message.metadata.map(Fields::into_map),
        extensions: message.extensions,
        reference_task_ids: message.reference_task_ids,
    })
}

fn part_in(part: pb::Part) -> Outcome<json::Part> {
    use pb::part::Content as Proto;
    let content = match part.content {
        Some(Proto::Text(text)) => json::Content::Text(text),
        Some(Proto::Raw(bytes)) => json::Content::Raw(STANDARD.encode(bytes)),
        Some(Proto::Url(url)) => json::Content::Url(url),
        Some(Proto::Data(value)) => json::Content::Data(value.into_value()),
        None => {
            return Err(Problem::invalid("message.parts", "expected text, raw, url or data"));
        }
    };
    Ok(json::Part {
        content,
        metadata: part.metadata.map(Fields::into_map),
        filename: part.filename,
        media_type: part.media_type,
    })
}

fn part_out(part: json::Part) -> pb::Part {
    use pb::part::Content as Proto;
    let content = match part.content {
        json::Content::Text(text) => Proto::Text(text),
        // A workflow may hand out what is no base64: it is passed on as it is.
        json::Content::Raw(text) => {
            Proto::Raw(STANDARD.decode(&text).unwrap_or_else(|_| text.into_bytes()))
        }
        json::Content::Url(url) => Proto::Url(url),
        json::Content::Data(value) => Proto::Data(value.into()),
    };
    pb::Part {
        content: Some(content),
        metadata: part.metadata.map(Fields::from),
        filename: part.filename,
        media_type: part.media_type,
    }
}

fn message_out(message: json::Message) -> pb::Message {
    let role = match message.role {
        json::Role::Unspecified => pb::Role::Unspecified,
        json::Role::User => pb::Role::User,
        json::Role::Agent => pb::Role::Agent,
    };
    pb::Message {
        message_id: message.message_id,
        context_id: message.context_id,
        task_id: message.task_id,
        role: role.into(),
        parts: message.parts.into_iter().map(part_out).collect(),
        metadata: message.metadata.map(Fields::from),
        extensions: message.extensions,
        reference_task_ids: message.reference_task_ids,
    }
}

fn artifact_out(artifact: json::Artifact) -> pb::Artifact {
    pb::Artifact {
        artifact_id: artifact.artifact_id,
        name: artifact.name,
        description: artifact.description,
        parts: artifact.parts.into_iter().map(part_out).collect(),
        metadata: artifact.metadata.map(Fields::from),
        extensions: artifact.extensions,
    }
}

fn status_out(status: json::TaskStatus) -> pb::TaskStatus {
    let time = status.timestamp.and_then(|text| text.parse::<Timestamp>().ok());
    pb::TaskStatus {
        state: state_out(status.state).into(),
        message: status.message.map(message_out),
        timestamp: time
            .map(|time| ProtoTime { seconds: time.as_second(), nanos: time.subsec_nanosecond() }),
    }
}

pub(super) fn task(task: json::Task) -> pb::Task {
    pb::Task {
        id: task.id,
        context_id: task.context_id,
        status: Some(status_out(task.status)),
        artifacts: task.artifacts.into_iter().map(artifact_out).collect(),
        history: task.history.into_iter().map(message_out).collect(),
        metadata: task.metadata.map(Fields::from),
    }
}

pub(super) fn sent(sent: json::SendMessageResponse) -> pb::SendMessageResponse {
    use pb::send_message_response::Payload;
    let payload = match sent {
        json::SendMessageResponse::Task(told) => Payload::Task(task(*told)),
        json::SendMessageResponse::Message(told) => Payload::Message(message_out(*told)),
    };
    pb::SendMessageResponse { payload: Some(payload) }
}

pub(super) fn listed(page: json::ListTasksResponse) -> pb::ListTasksResponse {
    pb::ListTasksResponse {
        tasks: page.tasks.into_iter().map(task).collect(),
        next_page_token: page.next_page_token,
        page_size: page.page_size,
        total_size: page.total_size,
    }
}

pub(super) fn event(told: json::StreamResponse) -> pb::StreamResponse {
    use pb::stream_response::Payload;
    let payload = match told {
        json::StreamResponse::Task(told) => Payload::Task(task(*told)),
        json::StreamResponse::Message(told) => Payload::Message(message_out(*told)),
        json::StreamResponse::StatusUpdate(told) => {
            Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
                task_id: told.task_id,
                context_id: told.context_id,
                status: Some(status_out(told.status)),
                metadata: told.metadata.map(Fields::from),
            })
        }
        json::StreamResponse::ArtifactUpdate(told) => {
            Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
                task_id: told.task_id,
                context_id: told.context_id,
                artifact: Some(artifact_out(told.artifact)),
                append: told.append,
                last_chunk: told.last_chunk,
                metadata: told.metadata.map(Fields::from),
            })
        }
    };
    pb::StreamResponse { payload: Some(payload) }
}
