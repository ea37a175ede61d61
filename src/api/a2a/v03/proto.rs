//! Proto: the shapes of 1.0 ↔ `a2a.v1`, the messages of 0.3, field by field.

use jiff::Timestamp;
use prost_types::Timestamp as ProtoTime;
use serde_json::{Map, Value, json};

use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::v03::{DEFAULT_PUSH, PROTOCOL, VERSION, is_last};
use crate::wire::a2a as new;
use crate::wire::json::Fields;
use crate::wire::older as pb;

/// A call as the core takes it.
pub(super) fn send_message(call: pb::SendMessageRequest) -> Outcome<new::SendMessage> {
    let message = call.request.ok_or_else(|| Problem::invalid("message", "expected a message"))?;
    // Whoever says nothing about it waits; whoever says something says so.
    let waits = call.configuration.as_ref().is_none_or(|configuration| configuration.blocking);
    let configuration = call.configuration.unwrap_or_default();
    Ok(new::SendMessage {
        tenant: String::new(),
        message: message_in(message)?,
        configuration: new::SendConfiguration {
            accepted_output_modes: configuration.accepted_output_modes,
            task_push_notification_config: configuration
                .push_notification
                .map(|config| push_in(String::new(), config)),
            history_length: length(configuration.history_length),
            return_immediately: !waits,
        },
        metadata: call.metadata.map(Fields::into_map),
    })
}

/// How much of the history is wanted: this version cannot tell none from nothing said.
pub(super) fn length(given: i32) -> Option<i32> {
    Some(given).filter(|given| *given != 0)
}

/// The task in `tasks/{task}`.
pub(super) fn task_named(name: &str) -> Outcome<String> {
    let task = name.strip_prefix("tasks/").filter(|task| !task.is_empty() && !task.contains('/'));
    task.map(str::to_owned).ok_or_else(|| Problem::invalid("name", "expected `tasks/{task}`"))
}

/// The webhook in `tasks/{task}/pushNotificationConfigs/{webhook}`.
pub(super) fn push_named(name: &str) -> Outcome<new::GetPushConfig> {
    let path: Vec<_> = name.split('/').collect();
    let ["tasks", task, "pushNotificationConfigs", id] = path.as_slice() else {
        let remedy = "expected `tasks/{task}/pushNotificationConfigs/{webhook}`";
        return Err(Problem::invalid("name", remedy));
    };
    let (task_id, id) = ((*task).to_owned(), (*id).to_owned());
    Ok(new::GetPushConfig { tenant: String::new(), task_id, id })
}

/// A webhook that is set up.
pub(super) fn push_created(
    call: pb::CreateTaskPushNotificationConfigRequest,
) -> Outcome<new::PushConfig> {
    let task_id = task_named(&call.parent)?;
    let config = call.config.and_then(|config| config.push_notification_config);
    let mut config = config.ok_or_else(|| Problem::invalid("config", "expected a webhook"))?;
    if config.id.is_empty() {
        config.id = call.config_id;
    }
    Ok(push_in(task_id, config))
}

/// A webhook may name several schemes here, of which the first is meant.
fn push_in(task_id: String, config: pb::PushNotificationConfig) -> new::PushConfig {
    let id = if config.id.is_empty() { DEFAULT_PUSH.to_owned() } else { config.id };
    new::PushConfig {
        tenant: String::new(),
        id,
        task_id,
        url: config.url,
        token: config.token,
        authentication: config.authentication.map(|proof| new::PushAuthentication {
            scheme: proof.schemes.into_iter().next().unwrap_or_else(|| "Bearer".into()),
            credentials: proof.credentials,
        }),
    }
}

pub(super) fn push(config: new::PushConfig) -> pb::TaskPushNotificationConfig {
    let name = format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id);
    let config = pb::PushNotificationConfig {
        id: config.id,
        url: config.url,
        token: config.token,
        authentication: config.authentication.map(|proof| pb::AuthenticationInfo {
            schemes: vec![proof.scheme],
            credentials: proof.credentials,
        }),
    };
    pb::TaskPushNotificationConfig { name, push_notification_config: Some(config) }
}

fn message_in(message: pb::Message) -> Outcome<new::Message> {
    let role = match message.role() {
        pb::Role::User => new::Role::User,
        pb::Role::Agent => new::Role::Agent,
        pb::Role::Unspecified => new::Role::Unspecified,
    };
    Ok(new::Message {
        message_id: message.message_id,
        context_id: message.context_id,
        task_id: message.task_id,
        role,
        parts: message.content.into_iter().map(part_in).collect::<Outcome<_>>()?,
        metadata: message.metadata.map(Fields::into_map),
        extensions: message.extensions,
        reference_task_ids: Vec::new(),
    })
}

fn part_in(part: pb::Part) -> Outcome<new::Part> {
    use pb::file_part::File;
    use pb::part::Part;
    let metadata = part.metadata.map(Fields::into_map);
    let content = match part.part {
        Some(Part::Text(text)) => new::Content::Text(text),
        Some(Part::Data(data)) => {
            new::Content::Data(Value::Object(data.data.map(Fields::into_map).unwrap_or_default()))
        }
        Some(Part::File(file)) => {
            let content = match file.file {
                Some(File::FileWithUri(uri)) => new::Content::Url(uri),
                Some(File::FileWithBytes(bytes)) => {
                    new::Content::Raw(String::from_utf8_lossy(&bytes).into_owned())
                }
                None => return Err(Problem::invalid("message.content", "expected a file")),
            };
            let (filename, media_type) = (file.name, file.mime_type);
            return Ok(new::Part { content, metadata, filename, media_type });
        }
        None => {
            return Err(Problem::invalid("message.content", "expected text, a file or data"));
        }
    };
    Ok(new::Part { metadata, ..new::Part::of(content) })
}

fn part_out(part: new::Part) -> pb::Part {
    use pb::file_part::File;
    use pb::part::Part;
    let file = |file: File| {
        let (mime_type, name) = (part.media_type.clone(), part.filename.clone());
        Part::File(pb::FilePart { file: Some(file), mime_type, name })
    };
    let content = match part.content {
        new::Content::Text(text) => Part::Text(text),
        // In base64, as clients of this version expect it even here.
        new::Content::Raw(text) => file(File::FileWithBytes(text.into_bytes())),
        new::Content::Url(url) => file(File::FileWithUri(url)),
        new::Content::Data(Value::Object(fields)) => {
            Part::Data(pb::DataPart { data: Some(fields.into()) })
        }
        // Data is always an object in this version.
        new::Content::Data(value) => {
            let fields = Map::from_iter([("value".to_owned(), json!(value))]);
            Part::Data(pb::DataPart { data: Some(fields.into()) })
        }
    };
    pb::Part { part: Some(content), metadata: part.metadata.map(Fields::from) }
}

fn message_out(message: new::Message) -> pb::Message {
    let role = match message.role {
        new::Role::Unspecified => pb::Role::Unspecified,
        new::Role::User => pb::Role::User,
        new::Role::Agent => pb::Role::Agent,
    };
    pb::Message {
        message_id: message.message_id,
        context_id: message.context_id,
        task_id: message.task_id,
        role: role.into(),
        content: message.parts.into_iter().map(part_out).collect(),
        metadata: message.metadata.map(Fields::from),
        extensions: message.extensions,
    }
}

fn artifact_out(artifact: new::Artifact) -> pb::Artifact {
    pb::Artifact {
        artifact_id: artifact.artifact_id,
        name: artifact.name,
        description: artifact.description,
        parts: artifact.parts.into_iter().map(part_out).collect(),
        metadata: artifact.metadata.map(Fields::from),
        extensions: artifact.extensions,
    }
}

fn state_out(state: new::TaskState) -> pb::TaskState {
    use new::TaskState as New;
    match state {
        New::Unspecified => pb::TaskState::Unspecified,
        New::Submitted => pb::TaskState::Submitted,
        New::Working => pb::TaskState::Working,
        New::Completed => pb::TaskState::Completed,
        New::Failed => pb::TaskState::Failed,
        New::Canceled => pb::TaskState::Cancelled,
        New::InputRequired => pb::TaskState::InputRequired,
        New::Rejected => pb::TaskState::Rejected,
        New::AuthRequired => pb::TaskState::AuthRequired,
    }
}

fn status_out(status: new::TaskStatus) -> pb::TaskStatus {
    let time = status.timestamp.and_then(|text| text.parse::<Timestamp>().ok());
    pb::TaskStatus {
        state: state_out(status.state).into(),
        update: status.message.map(message_out),
        timestamp: time
            .map(|time| ProtoTime { seconds: time.as_second(), nanos: time.subsec_nanosecond() }),
    }
}

pub(super) fn task(task: new::Task) -> pb::Task {
    pb::Task {
        id: task.id,
        context_id: task.context_id,
        status: Some(status_out(task.status)),
        artifacts: task.artifacts.into_iter().map(artifact_out).collect(),
        history: task.history.into_iter().map(message_out).collect(),
        metadata: task.metadata.map(Fields::from),
    }
}

pub(super) fn sent(sent: new::SendMessageResponse) -> pb::SendMessageResponse {
    use pb::send_message_response::Payload;
    let payload = match sent {
        new::SendMessageResponse::Task(told) => Payload::Task(task(*told)),
        new::SendMessageResponse::Message(told) => Payload::Msg(message_out(*told)),
    };
    pb::SendMessageResponse { payload: Some(payload) }
}

/// An event of a stream. `stays` if the stream does not end with a pause.
pub(super) fn event(told: new::StreamResponse, stays: bool) -> pb::StreamResponse {
    use pb::stream_response::Payload;
    let payload = match told {
        new::StreamResponse::Task(told) => Payload::Task(task(*told)),
        new::StreamResponse::Message(told) => Payload::Msg(message_out(*told)),
        new::StreamResponse::StatusUpdate(told) => {
            Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
                task_id: told.task_id,
                context_id: told.context_id,
                r#final: is_last(told.status.state, stays),
                status: Some(status_out(told.status)),
                metadata: told.metadata.map(Fields::from),
            })
        }
        new::StreamResponse::ArtifactUpdate(told) => {
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

/// A card, as far as this version knows what is in it.
pub(super) fn card(card: new::AgentCard) -> pb::AgentCard {
    let mut interfaces =
        card.supported_interfaces.iter().filter(|one| one.protocol_version == VERSION);
    let (url, preferred_transport) = match interfaces.next() {
        Some(first) => (first.url.clone(), first.protocol_binding.to_owned()),
        None => Default::default(),
    };
    let additional_interfaces = interfaces.map(|one| pb::AgentInterface {
        url: one.url.clone(),
        transport: one.protocol_binding.to_owned(),
    });
    let additional_interfaces = additional_interfaces.collect();
    let extensions = card.capabilities.extensions.into_iter().map(|one| pb::AgentExtension {
        uri: one.uri.to_owned(),
        description: one.description.to_owned(),
        required: one.required,
        params: one.params.map(Fields::from),
    });
    let schemes = card.security_schemes.into_iter().map(|(name, scheme)| {
        let new::SecurityScheme::HttpAuthSecurityScheme(scheme) = scheme;
        let scheme = pb::HttpAuthSecurityScheme {
            description: scheme.description.to_owned(),
            scheme: scheme.scheme.to_owned(),
            bearer_format: String::new(),
        };
        let scheme = Some(pb::security_scheme::Scheme::HttpAuthSecurityScheme(scheme));
        (name.to_owned(), pb::SecurityScheme { scheme })
    });
    let wanted = card.security_requirements.into_iter().map(|wanted| pb::Security {
        schemes: wanted
            .schemes
            .into_iter()
            .map(|(name, scopes)| (name.to_owned(), pb::StringList { list: scopes.list }))
            .collect(),
    });
    pb::AgentCard {
        protocol_version: PROTOCOL.to_owned(),
        name: card.name,
        description: card.description,
        url,
        preferred_transport,
        additional_interfaces,
        version: card.version,
        capabilities: Some(pb::AgentCapabilities {
            streaming: card.capabilities.streaming,
            push_notifications: card.capabilities.push_notifications,
            extensions: extensions.collect(),
        }),
        security_schemes: schemes.collect(),
        security: wanted.collect(),
        default_input_modes: card.default_input_modes.into_iter().map(str::to_owned).collect(),
        default_output_modes: card.default_output_modes.into_iter().map(str::to_owned).collect(),
        skills: card.skills.into_iter().map(skill).collect(),
        supports_authenticated_extended_card: card.capabilities.extended_agent_card,
        signatures: card.signatures.into_iter().map(signature).collect(),
        ..pb::AgentCard::default()
    }
}

fn skill(skill: new::Skill) -> pb::AgentSkill {
    let new::Skill { id, name, description, tags } = skill;
    pb::AgentSkill { id, name, description, tags, ..pb::AgentSkill::default() }
}

fn signature(one: new::CardSignature) -> pb::AgentCardSignature {
    let new::CardSignature { protected, signature } = one;
    pb::AgentCardSignature { protected, signature, header: None }
}
