"""Runs the cases of `json_tensor_test.cc` against this server's JSON."""

import re
import sys

import numpy as np
from google.protobuf import text_format
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from serving.server.json_examples import read_examples
from serving.server.json_request import Layout, read_predict, signature_name
from serving.server.json_response import (
    write_classification,
    write_error,
    write_predict,
    write_regression,
)
from serving.server.json_values import parse_object
from serving.server.status import invalid_argument
from serving.server.tensors import to_array
from tests.serving.server.their_cases import (
    IGNORED,
    LITERAL,
    STATUS,
    Interpreter,
    assert_same,
    loads,
)


class JsonInterpreter(Interpreter):
    """Of `json_tensor_test.cc`."""

    def __init__(self, case):
        super().__init__(case)
        self.infos, self.tensors = {}, {}
        self.strings = {}
        self.messages = {}
        self.json = ""

    def forms(self):
        body = r"(.+?)"
        return [
            *[(pattern, lambda *_: None) for pattern in IGNORED],
            (rf"const string jsonstr = {LITERAL}", self.keep_string),
            (
                rf"ASSERT_TRUE\( ?(?:protobuf::)?TextFormat::ParseFromString\({LITERAL}, ?&(\w+)"
                r"(?:\[(<\d+>)\])?\)\)",
                self.parse,
            ),
            (r"(infomap|req)\.(?:clear|Clear)\(\)", self.clear),
            (
                rf"{STATUS}FillPredictRequestFromJson\( ?{body}, getmap\(infomap\), "
                r"&req, &format\)\)?",
                self.fill_predict,
            ),
            (rf"{STATUS}this->FillRequest\( ?{body}, &req\)\)?", self.fill_examples),
            (r"EXPECT_EQ\(tmap2?\.size\(\), (\d+)\)", self.expect_size),
            (r"EXPECT_EQ\(format, JsonPredictRequestFormat::k(\w+)\)", self.expect_layout),
            (
                rf"EXPECT_EQ\(req\.model_spec\(\)\.signature_name\(\), {LITERAL}\)",
                self.expect_signature,
            ),
            (
                rf"EXPECT_THAT\(tmap2?\[(<\d+>)\], EqualsProto\({LITERAL}\)\)",
                self.expect_tensor,
            ),
            (
                r"ASSERT_TRUE\((?:errors::|absl::)IsInvalidArgument\(status\)\)",
                self.expect_invalid,
            ),
            (
                rf"EXPECT_THAT\(status\.(?:error_)?message\(\), HasSubstr\({LITERAL}\)\)",
                self.expect_message,
            ),
            (
                rf"{STATUS}MakeJsonFromTensors\( ?tensormap, "
                r"JsonPredictRequestFormat::k(\w+), &json\)\)?",
                self.write_tensors,
            ),
            (rf"{STATUS}MakeJsonFrom(\w+)Result\((\S+), &json\)\)?", self.write_result),
            (rf"TF_EXPECT_OK\( ?CompareJson\w*\( ?json, {LITERAL}\)\)", self.expect_json),
            (r"EXPECT_TRUE\((?:MessageDifferencer|differencer).*", self.expect_request),
            (
                r"MakeJsonFromStatus\((?:absl::)?(?:Status::OK|OkStatus)\(\), &json\)",
                self.keep_empty,
            ),
            (
                r"MakeJsonFromStatus\((?:errors::|absl::)InvalidArgument(?:Error)?"
                rf"\({LITERAL}\), &json\)",
                self.write_status,
            ),
            (rf"EXPECT_EQ\(json, {LITERAL}\)", self.expect_text),
        ]

    def keep_string(self, literal):
        self.strings["jsonstr"] = self.text(literal)

    def parse(self, literal, name, key):
        kinds = {"infomap": meta_graph_pb2.TensorInfo, "tensormap": tensor_pb2.TensorProto}
        text = self.text(literal)
        if name in kinds:
            table = self.infos if name == "infomap" else self.tensors
            table[self.text(key)] = text_format.Parse(text, kinds[name]())
        else:
            self.messages[name] = text

    def clear(self, name):
        if name == "infomap":
            self.infos.clear()

    def document(self, expression):
        if expression.startswith("absl::Substitute"):
            template, value = re.fullmatch(
                r"absl::Substitute\( ?(<\d+>), (.+)\)", expression
            ).groups()
            largest = f"{sys.float_info.max:.6g}"
            value = largest if "numeric_limits<double>" in value else value.rstrip("ul")
            return self.text(template).replace("$0", value).encode()
        if expression.startswith("absl::string_view"):
            return self.strings["jsonstr"][:-1].encode()
        return self.text(expression).encode()

    def fill_predict(self, status, expression):
        def read():
            document = parse_object(self.document(expression))
            self.signature = signature_name(document)
            return read_predict(document, self.infos)

        self.request = self.attempt(status, read)

    def fill_examples(self, status, expression):
        def read():
            document = parse_object(self.document(expression))
            return signature_name(document), read_examples(document)

        self.request = self.attempt(status, read)

    def expect_size(self, size):
        assert len(self.request.inputs) == int(size)

    def expect_layout(self, name):
        assert self.request.layout is {"Row": Layout.ROW, "Columnar": Layout.COLUMNAR}[name]

    def expect_signature(self, literal):
        assert self.signature == self.text(literal)

    def expect_tensor(self, alias, literal):
        expected = to_array(text_format.Parse(self.text(literal), tensor_pb2.TensorProto()))
        found = self.request.inputs[self.text(alias)]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)

    def write_tensors(self, status, layout):
        kinds = {"Row": Layout.ROW, "Columnar": Layout.COLUMNAR}
        outputs = {name: to_array(proto) for name, proto in self.tensors.items()}
        self.json = self.attempt(status, lambda: write_predict(outputs, kinds[layout]))

    def write_result(self, status, kind, argument):
        kinds = {
            "Classification": (classification_pb2.ClassificationResult, write_classification),
            "Regression": (regression_pb2.RegressionResult, write_regression),
        }
        message, write = kinds[kind]
        result = (
            message() if "(" in argument else text_format.Parse(self.messages[argument], message())
        )
        self.json = self.attempt(status, lambda: write(result))

    def keep_empty(self):
        self.json = b""

    def write_status(self, literal):
        self.json = write_error(invalid_argument(self.text(literal)).message)

    def expect_text(self, literal):
        assert self.json.decode() == self.text(literal)

    def expect_json(self, literal):
        assert_same(loads(self.json.decode()), loads(self.text(literal)))

    def expect_request(self):
        expected = text_format.Parse(
            self.messages["expected_req"], classification_pb2.ClassificationRequest()
        )
        signature, given = self.request
        assert signature == expected.model_spec.signature_name
        assert isinstance(given, input_pb2.Input)
        # Text has the floats rounded, and NaN equals no NaN.
        assert text_format.MessageToString(given) == text_format.MessageToString(expected.input)
