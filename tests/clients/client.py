"""A client as any team would write it: generated from the proto files, nothing of ours beside.

    client.py ADDRESS run WORKFLOW TEXT     starts a workflow
    client.py ADDRESS answer REQUEST TEXT   answers a request
    client.py ADDRESS reflect               lists services by reflection (v1alpha)
    client.py ADDRESS health                asks how the services are

Prints one JSON document that says how it ended.
"""

import json
import sys

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.struct_pb2 import Value
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from holdpoint.v1 import orchestrator_pb2, orchestrator_pb2_grpc

SERVICE = "holdpoint.v1.Orchestrator"
# A bound on everything; nothing here takes as long.
TIMEOUT = 60


def follow(events):
    """Reads a stream to its end, and says what it ended with."""
    request, last = None, None
    try:
        for event in events:
            last = event.WhichOneof("event")
            if last == "request_info":
                asked = event.request_info
                request = {
                    "id": asked.request_id,
                    "prompt": asked.prompt,
                    "options": [option.id for option in asked.options],
                }
    except grpc.RpcError as error:
        return {"refused": reason_of(error), "status": error.code().name}
    return {"last": last, "request": request if last == "status" else None}


def reason_of(error):
    """The stable code in google.rpc.ErrorInfo, read without any further package."""
    trailers = dict(error.trailing_metadata())
    details = trailers["grpc-status-details-bin"]
    start = details.index(b"google.rpc.ErrorInfo")
    rest = details[start + len(b"google.rpc.ErrorInfo"):]
    # Any.value, then ErrorInfo.reason: field 1, a short string.
    at = rest.index(b"\x0a", 2)
    return rest[at + 2:at + 2 + rest[at + 1]].decode()


def main(address, verb, *words):
    channel = grpc.insecure_channel(address)
    orchestrator = orchestrator_pb2_grpc.OrchestratorStub(channel)
    if verb == "run":
        workflow, text = words
        request = orchestrator_pb2.RunWorkflowRequest(
            workflow_id=workflow, input=Value(string_value=text)
        )
        return follow(orchestrator.RunWorkflow(request, timeout=TIMEOUT))
    if verb == "answer":
        request_id, text = words
        request = orchestrator_pb2.SendResponsesRequest(
            responses={request_id: Value(string_value=text)}
        )
        return follow(orchestrator.SendResponses(request, timeout=TIMEOUT))
    if verb == "reflect":
        database = ProtoReflectionDescriptorDatabase(channel)
        service = descriptor_pool.DescriptorPool(database).FindServiceByName(SERVICE)
        return {"services": list(database.get_services()), "methods": len(service.methods)}
    if verb == "health":
        health = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.ServingStatus
        ask = lambda name: health.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT)
        return {name: serving.Name(ask(name).status) for name in ("", SERVICE)}
    raise SystemExit(__doc__)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
