//! gRPC of 0.3, `a2a.v1.A2AService`. It knows no tenants: it is the root's agent.

use tonic::{Request, Response, Status};

use crate::api::a2a::A2a;
use crate::api::a2a::card;
use crate::api::a2a::core::{Caller, TaskStream};
use crate::api::a2a::errors::Problem;
use crate::api::a2a::grpc;
use crate::api::a2a::v03::{check_version, older, proto, resubscribe};
use crate::wire::a2a as new;
use crate::wire::older as pb;

/// The service over the core.
#[derive(Debug, Clone)]
pub struct OlderService {
    a2a: A2a,
}

type Events = grpc::Stream<pb::StreamResponse>;
type Reply<T> = Result<Response<T>, Status>;

impl OlderService {
    pub(in crate::api::a2a) fn new(a2a: A2a) -> Self {
        Self { a2a }
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = || {
            let caller = grpc::caller(&self.a2a.core, request, "")?;
            check_version(grpc::given(request, "a2a-version"))?;
            Ok(older(caller))
        };
        caller().map_err(no)
    }
}

/// A refusal as this version tells it over gRPC: its own name for it, then the words.
fn no(problem: Problem) -> Status {
    let message = match problem.kind.older_name() {
        Some(name) => format!("{name}: {}", problem.message()),
        None => problem.message().to_owned(),
    };
    grpc::no(problem.saying(message))
}

fn events(stream: TaskStream, stays: bool) -> Response<Events> {
    grpc::streamed(stream, move |told| proto::event(told, stays))
}

#[tonic::async_trait]
impl pb::a2a_service_server::A2aService for OlderService {
    type SendStreamingMessageStream = Events;
    type TaskSubscriptionStream = Events;

    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Reply<pb::SendMessageResponse> {
        let caller = self.caller(&request)?;
        let call = proto::send_message(request.into_inner()).map_err(no)?;
        let sent = self.a2a.core.send(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::sent(sent)))
    }

    async fn send_streaming_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Reply<Events> {
        let caller = self.caller(&request)?;
        let call = proto::send_message(request.into_inner()).map_err(no)?;
        let stream = self.a2a.core.send_streaming(&caller, &call).await.map_err(no)?;
        Ok(events(stream, false))
    }

    async fn get_task(&self, request: Request<pb::GetTaskRequest>) -> Reply<pb::Task> {
        let caller = self.caller(&request)?;
        let pb::GetTaskRequest { name, history_length } = request.into_inner();
        let id = proto::task_named(&name).map_err(no)?;
        let history_length = proto::length(history_length);
        let call = new::GetTask { id, history_length, ..new::GetTask::default() };
        let task = self.a2a.core.get(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::task(task)))
    }

    async fn cancel_task(&self, request: Request<pb::CancelTaskRequest>) -> Reply<pb::Task> {
        let caller = self.caller(&request)?;
        let id = proto::task_named(&request.get_ref().name).map_err(no)?;
        let call = new::CancelTask { id, ..new::CancelTask::default() };
        let task = self.a2a.core.cancel(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::task(task)))
    }

    async fn task_subscription(
        &self,
        request: Request<pb::TaskSubscriptionRequest>,
    ) -> Reply<Events> {
        let caller = self.caller(&request)?;
        let id = proto::task_named(&request.get_ref().name).map_err(no)?;
        let wanted = new::SubscribeToTask { id, ..new::SubscribeToTask::default() };
        let stream = resubscribe(&self.a2a.core, &caller, wanted, None).await.map_err(no)?;
        Ok(events(stream, true))
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<pb::CreateTaskPushNotificationConfigRequest>,
    ) -> Reply<pb::TaskPushNotificationConfig> {
        let caller = self.caller(&request)?;
        let config = proto::push_created(request.into_inner()).map_err(no)?;
        let made = self.a2a.core.create_push(&caller, &config).await.map_err(no)?;
        Ok(Response::new(proto::push(made)))
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Reply<pb::TaskPushNotificationConfig> {
        let caller = self.caller(&request)?;
        let call = proto::push_named(&request.get_ref().name).map_err(no)?;
        let found = self.a2a.core.get_push(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::push(found)))
    }

    async fn list_task_push_notification_config(
        &self,
        request: Request<pb::ListTaskPushNotificationConfigRequest>,
    ) -> Reply<pb::ListTaskPushNotificationConfigResponse> {
        let caller = self.caller(&request)?;
        let asked = request.into_inner();
        let call = new::ListPushConfigs {
            tenant: String::new(),
            task_id: proto::task_named(&asked.parent).map_err(no)?,
            page_size: asked.page_size,
            page_token: asked.page_token,
        };
        let listed = self.a2a.core.list_pushes(&caller, &call).await.map_err(no)?;
        Ok(Response::new(pb::ListTaskPushNotificationConfigResponse {
            configs: listed.configs.into_iter().map(proto::push).collect(),
            next_page_token: listed.next_page_token,
        }))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Reply<()> {
        let caller = self.caller(&request)?;
        let call = proto::push_named(&request.get_ref().name).map_err(no)?;
        self.a2a.core.delete_push(&caller, &call).await.map_err(no)?;
        Ok(Response::new(()))
    }

    async fn get_agent_card(
        &self,
        request: Request<pb::GetAgentCardRequest>,
    ) -> Reply<pb::AgentCard> {
        let caller = self.caller(&request)?;
        let base = grpc::base(&self.a2a, &request).map_err(no)?;
        let card = card::card(&self.a2a, &caller.agent, None, &base, card::Names::All);
        Ok(Response::new(proto::card(card)))
    }
}
