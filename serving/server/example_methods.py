"""The methods over examples, by the name that signatures have for them."""

from serving.server.classification import Classification
from serving.server.inference import ExampleMethod
from serving.server.regression import Regression

CLASSIFY = Classification()
REGRESS = Regression()

EXAMPLE_METHODS: dict[str, ExampleMethod] = {
    method.method_name: method for method in (CLASSIFY, REGRESS)
}
