//! gRPC: A2A's third binding, `lf.a2a.v1.A2AService`. The tenant names the agent.

use std::pin::Pin;

use tonic::{Request, Response, Status};

use crate::api::Shown;
use crate::api::a2a::core::{Caller, Core, TaskStream};
use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::{A2a, card, proto, version};
use crate::api::envelope::Authority;
use crate::wire::a2a as json;
use crate::wire::lf as pb;

/// The service over the core.
#[derive(Debug, Clone)]
pub struct A2aService {
    a2a: A2a,
}

/// A stream of messages of either version.
pub(super) type Stream<T> = Pin<Box<dyn futures::Stream<Item = Result<T, Status>> + Send>>;
type Events = Stream<pb::StreamResponse>;
type Reply<T> = Result<Response<T>, Status>;

impl A2aService {
    pub(super) fn new(a2a: A2a) -> Self {
        Self { a2a }
    }

    /// Who calls which agent, in a version that is spoken here.
    fn caller<T>(&self, request: &Request<T>, tenant: &str) -> Result<Caller, Status> {
        let caller = || {
            let caller = caller(&self.a2a.core, request, tenant)?;
            version::check(given(request, "a2a-version"))?;
            Ok(caller)
        };
        caller().map_err(no)
    }
}

/// Who calls which agent.
pub(super) fn caller<T>(core: &Core, request: &Request<T>, tenant: &str) -> Outcome<Caller> {
    let who = core.admit(Shown::of(request.metadata().as_ref()))?;
    let key = given(request, "idempotency-key").unwrap_or_default().to_owned();
    let agent = core.agent(None, tenant)?;
    Ok(Caller { who, agent, key, tenant: tenant.to_owned(), is_older: false })
}

/// What goes with a call.
pub(super) fn given<'a, T>(request: &'a Request<T>, name: &str) -> Option<&'a str> {
    request.metadata().get(name).and_then(|value| value.to_str().ok())
}

/// Where the caller reaches this server, as a URL without a path.
pub(super) fn base<T>(a2a: &A2a, request: &Request<T>) -> Outcome<String> {
    let called = request.extensions().get::<Authority>();
    card::base(a2a, called.map(|Authority(name)| name.as_str()))
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
pub(super) fn no(problem: Problem) -> Status {
    problem.to_status()
}

fn events(stream: TaskStream) -> Response<Events> {
    streamed(stream, proto::event)
}

/// A task's events, each as `tell` has it.
pub(super) fn streamed<T: 'static>(
    stream: TaskStream,
    tell: impl Fn(json::StreamResponse) -> T + Copy + Send + 'static,
) -> Response<Stream<T>> {
    let events = futures::stream::unfold(stream, move |mut stream| async move {
        let told = stream.next().await?;
        Some((told.map(|(_, told)| tell(told)).map_err(no), stream))
    });
    Response::new(Box::pin(events))
}

#[tonic::async_trait]
impl pb::a2a_service_server::A2aService for A2aService {
    type SendStreamingMessageStream = Events;
    type SubscribeToTaskStream = Events;

    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Reply<pb::SendMessageResponse> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let call = proto::send_message(request.into_inner()).map_err(no)?;
        let sent = self.a2a.core.send(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::sent(sent)))
    }

    async fn send_streaming_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Reply<Events> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let call = proto::send_message(request.into_inner()).map_err(no)?;
        self.a2a.core.send_streaming(&caller, &call).await.map(events).map_err(no)
    }

    async fn get_task(&self, request: Request<pb::GetTaskRequest>) -> Reply<pb::Task> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let pb::GetTaskRequest { tenant, id, history_length } = request.into_inner();
        let call = json::GetTask { tenant, id, history_length };
        let task = self.a2a.core.get(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::task(task)))
    }

    async fn list_tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Reply<pb::ListTasksResponse> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let call = proto::list_tasks(request.into_inner()).map_err(no)?;
        let page = self.a2a.core.list(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::listed(page)))
    }

    async fn cancel_task(&self, request: Request<pb::CancelTaskRequest>) -> Reply<pb::Task> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let pb::CancelTaskRequest { tenant, id, metadata: _ } = request.into_inner();
        let call = json::CancelTask { tenant, id, metadata: None };
        let task = self.a2a.core.cancel(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::task(task)))
    }

    async fn subscribe_to_task(
        &self,
        request: Request<pb::SubscribeToTaskRequest>,
    ) -> Reply<Events> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let pb::SubscribeToTaskRequest { tenant, id } = request.into_inner();
        let call = json::SubscribeToTask { tenant, id };
        self.a2a.core.subscribe(&caller, &call, None).await.map(events).map_err(no)
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<pb::TaskPushNotificationConfig>,
    ) -> Reply<pb::TaskPushNotificationConfig> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let config = proto::push_in(request.into_inner());
        let made = self.a2a.core.create_push(&caller, &config).await.map_err(no)?;
        Ok(Response::new(proto::push(made)))
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Reply<pb::TaskPushNotificationConfig> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let pb::GetTaskPushNotificationConfigRequest { tenant, task_id, id } = request.into_inner();
        let call = json::GetPushConfig { tenant, task_id, id };
        let found = self.a2a.core.get_push(&caller, &call).await.map_err(no)?;
        Ok(Response::new(proto::push(found)))
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<pb::ListTaskPushNotificationConfigsRequest>,
    ) -> Reply<pb::ListTaskPushNotificationConfigsResponse> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let asked = request.into_inner();
        let call = json::ListPushConfigs {
            tenant: asked.tenant,
            task_id: asked.task_id,
            page_size: asked.page_size,
            page_token: asked.page_token,
        };
        let listed = self.a2a.core.list_pushes(&caller, &call).await.map_err(no)?;
        Ok(Response::new(pb::ListTaskPushNotificationConfigsResponse {
            configs: listed.configs.into_iter().map(proto::push).collect(),
            next_page_token: listed.next_page_token,
        }))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Reply<()> {
        let caller = self.caller(&request, &request.get_ref().tenant)?;
        let pb::DeleteTaskPushNotificationConfigRequest { tenant, task_id, id } =
            request.into_inner();
        let call = json::GetPushConfig { tenant, task_id, id };
        self.a2a.core.delete_push(&caller, &call).await.map_err(no)?;
        Ok(Response::new(()))
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<pb::GetExtendedAgentCardRequest>,
    ) -> Reply<pb::AgentCard> {
        let tenant = request.get_ref().tenant.clone();
        let caller = self.caller(&request, &tenant)?;
        let card = || {
            let path = Some(tenant.as_str()).filter(|tenant| !tenant.is_empty());
            let base = base(&self.a2a, &request)?;
            let card = card::extended(&self.a2a, &caller.agent, path, &base, card::Names::All)?;
            proto::card(&card)
        };
        card().map(Response::new).map_err(no)
    }
}
