"""Reads and runs the cases of TensorFlow Serving's C++ tests.

Such a test is a list of plain calls and expectations. This reader knows as much of C++ as they use:
comments, strings, raw strings, and statements in braces.
"""

import dataclasses
import math
import re
from collections.abc import Iterator

import grpc
import rapidjson

from serving.server.status import ServingError

_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)\s*\{", re.MULTILINE)
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:[^"\\]|\\.)*)"|[{};]""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


@dataclasses.dataclass
class Case:
    """A test.

    Attributes:
        name: Suite and name.
        statements: Its statements, white space made single, each literal as `<NUMBER>`.
        literals: The strings, by number.
    """

    name: str
    statements: list[str]
    literals: list[str]


def read_cases(source: str) -> Iterator[Case]:
    """The tests of a file, in order."""
    for match in _TEST.finditer(source):
        yield _case(f"{match[1]}.{match[2]}", source, match.end())


def _case(name: str, source: str, start: int) -> Case:
    literals: list[str] = []
    statements, text, depth = [], "", 1
    while depth:
        token = _TOKEN.search(source, start)
        text += source[start : token.start()]
        start = token.end()
        literal = token["raw"] if token["raw"] is not None else token["text"]
        if literal is not None:
            if token["text"] is not None:
                literal = re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], literal)
            literals.append(literal)
            text += f"<{len(literals) - 1}>"
        elif token[0] in "{};":
            # Braces inside of parentheses are lists of values.
            if token[0] != ";" and text.count("(") > text.count(")"):
                text += token[0]
                continue
            depth += {"{": 1, "}": -1, ";": 0}[token[0]]
            if statement := " ".join(text.split()):
                statements.append(statement)
            text = ""
    return Case(name, statements, literals)


class Interpreter:
    """Runs a case: each statement is matched against the forms that the tests are written in.

    Attributes:
        error: Of the last call whose status is kept; None after one that went well.
    """

    def __init__(self, case):
        self.case = case
        self.error = None

    def run(self):
        for statement in self.case.statements:
            for pattern, method in self.forms():
                if match := re.fullmatch(pattern, statement):
                    method(*match.groups())
                    break
            else:
                raise AssertionError(f"not understood: {statement}")

    def text(self, reference):
        """The value of adjacent literals, which C++ joins."""
        return "".join(self.case.literals[int(each)] for each in re.findall(r"<(\d+)>", reference))

    def attempt(self, wanted, call):
        try:
            result = call()
        except ServingError as error:
            assert "OK" not in wanted, str(error)
            self.error = error
            return None
        self.error = None
        return result

    def expect_invalid(self):
        assert self.error and self.error.code is grpc.StatusCode.INVALID_ARGUMENT

    def expect_message(self, part):
        assert self.text(part) in self.error.message


STATUS = r"(TF_EXPECT_OK\( ?|TF_ASSERT_OK\( ?|(?:const auto& |auto )?status = )"
LITERAL = r"((?: ?<\d+>)+)"
IGNORED = [
    # Declarations.
    r"(?:TensorInfoMap|TensorMap|PredictRequest|JsonPredictRequestFormat|HeaderList) \w+",
    r"(?:TypeParam|ClassificationResult|RegressionResult) \w+",
    r"(?:absl::|tensorflow::)?Status \w+",
    r"(?:std::)?string \w+(?:, \w+)*",
    r"auto (\w+) = req\.inputs\(\)",
    r"(?:comparator|differencer)\..*",
    r"(?:DefaultFieldComparator|MessageDifferencer) \w+",
    r"json\.clear\(\)",
]


def loads(text):
    return rapidjson.loads(text, number_mode=rapidjson.NM_NATIVE | rapidjson.NM_NAN)


def assert_same(found, expected):
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(found[key], value)
    else:
        assert found == expected
