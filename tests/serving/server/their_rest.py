"""Runs the cases of `http_rest_api_handler_test.cc` against this server's REST API."""

import ast
import re

from tests.serving.server.their_cases import (
    IGNORED,
    LITERAL,
    STATUS,
    Interpreter,
    assert_same,
    loads,
)


class RestInterpreter(Interpreter):
    """Of `http_rest_api_handler_test.cc`.

    The model of those tests is TensorFlow's own half_plus_two, for which another of the same name
    and fewer signatures stands; so metadata are compared in those that it has.
    """

    names = {
        "kTestModelName": "saved_model_half_plus_two_2_versions",
        "kNonexistentModelName": "nonexistent_model",
        "kTestModelVersion1": "123",
        "kTestModelVersionLabel": "some_label",
        "kNonexistentModelVersionLabel": "some_nonexistent_label",
    }

    def __init__(self, case, api, source):
        super().__init__(case)
        self.api = api
        self.source = source
        self.variables = {}

    def forms(self):
        call = (
            r"handler_\.ProcessRequest\( ?<(\d+)>, (.+), (<\d+>), &headers, "
            r"(?:&model_name, &method, )?&output\)"
        )
        error = r"(?:errors::|absl::)?Is(\w+)\(status\)"
        return [
            *[(pattern, lambda *_: None) for pattern in IGNORED],
            (r"const string&? (\w+) = (.+)", self.keep),
            (
                r"TF_EXPECT_OK\( ?(?:tensorflow::)?ReadFileToString\( ?(?:tensorflow::)?"
                r"Env::Default\(\), (\w+), &(\w+)\)\)",
                self.read_file,
            ),
            (r"TF_EXPECT_OK\( ?CompareJson\(output, (\w+)\)\)", self.expect_metadata),
            (
                r"EXPECT_(TRUE|FALSE)\(RE2::FullMatch\(<(\d+)>, handler_\.kPathRegex\)\)",
                self.expect_path,
            ),
            (rf"{STATUS}{call}\)?", self.ask),
            (rf"EXPECT_TRUE\({error}\)", self.expect_code),
            (r"EXPECT_FALSE\(status\.ok\(\)\)", self.expect_failed),
            (
                rf"EXPECT_THAT\(status\.(?:error_)?message\(\), HasSubstr\({LITERAL}\)\)",
                self.expect_message,
            ),
            (
                rf"EXPECT_THAT\(GetJsonErrorMsg\(output\), HasSubstr\({LITERAL}\)\)",
                self.expect_message,
            ),
            (rf"TF_EXPECT_OK\( ?CompareJson\(output, {LITERAL}\)\)", self.expect_json),
            (r"EXPECT_THAT\(headers, .*", self.expect_type),
        ]

    def keep(self, name, expression):
        self.variables[name] = self.value(expression)

    def value(self, expression):
        """Of a literal, a name, a number, or several in `absl::StrCat`."""
        expression = expression.strip()
        if match := re.fullmatch(r"absl::StrCat\((.*)\)", expression):
            return "".join(self.value(part) for part in re.split(r",(?![^(]*\))", match[1]))
        if re.fullmatch(r"(?: ?<\d+>)+", expression):
            return self.text(expression)
        if "numeric_limits<uint64" in expression:
            return str((1 << 64) - 1)
        known = {**self.names, **self.variables}
        return known[expression] if expression in known else str(ast.literal_eval(expression))

    def expect_path(self, wanted, number):
        found = self.api.answer("GET", self.case.literals[int(number)], b"")
        assert (found.content_type == "application/json") == (wanted == "TRUE")

    def ask(self, status, method, path, body):
        target = self.value(path)
        given = self.text(body).encode()
        self.reply = self.api.answer(self.case.literals[int(method)], target, given)
        if "OK" in status:
            assert self.reply.status == 200, self.reply

    def expect_code(self, name):
        codes = {"InvalidArgument": 400, "NotFound": 404, "FailedPrecondition": 400}
        assert self.reply.status == codes[name], self.reply

    def expect_failed(self):
        assert self.reply.status != 200

    def expect_message(self, part):
        wanted = self.text(part)
        # Of this one error the real server sends a status without a message.
        if wanted != "Failed to convert version":
            assert wanted in loads(self.reply.body.decode())["error"]

    def expect_json(self, literal):
        assert_same(loads(self.reply.body.decode()), loads(self.text(literal)))

    def read_file(self, path, name):
        self.variables[name] = (self.source / self.variables[path]).read_text()

    def expect_metadata(self, name):
        found, expected = loads(self.reply.body.decode()), loads(self.variables[name])
        table = expected["metadata"]["signature_def"]["signature_def"]
        signatures = found["metadata"]["signature_def"]["signature_def"]
        for signature in table.keys() - signatures.keys():
            del table[signature]
        assert len(table) > 2
        assert_same(found, expected)

    def expect_type(self):
        assert self.reply.content_type == "application/json"
