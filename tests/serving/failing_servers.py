"""Servers that answer as they are told: with errors first, and then well."""

import concurrent.futures
import http.server
import json
import threading

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Grpc:
    """A gRPC server that answers with the codes given, one a call, and then well."""

    def __init__(self, codes):
        self.codes = list(codes)
        self.calls = 0

    def Predict(self, request, context):  # noqa: N802
        self.calls += 1
        if self.codes:
            context.abort(self.codes.pop(0), "as told")
        response = predict_pb2.PredictResponse()
        response.outputs["translation"].CopyFrom(tf.make_tensor_proto([b"done"]))
        response.outputs["score"].CopyFrom(tf.make_tensor_proto([1.0]))
        return response

    def __enter__(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()

    Classify = Regress = MultiInference = GetModelMetadata = None


class Rest:
    """An HTTP server that does the same."""

    def __init__(self, statuses, content=b'{"error": "as told"}'):
        self.statuses = list(statuses)
        self.content = content
        self.calls = 0

    def __enter__(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                outer.calls += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.statuses.pop(0) if outer.statuses else 200
                good = json.dumps({"outputs": {"translation": ["done"], "score": [1.0]}}).encode()
                content = good if status == 200 and outer.content[:1] == b"{" else outer.content
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


UNAVAILABLE = {"grpc": grpc.StatusCode.UNAVAILABLE, "rest": 503}
SERVERS = {"grpc": Grpc, "rest": Rest}
