"""From the models of Kubernetes' own client to manifests in YAML."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import yaml

from models.errors import UserError


def kubernetes_models() -> ModuleType:
    """The module with the client's models, `V1Deployment` and the like.

    Raises:
        UserError: If the client is not installed.
    """
    try:
        from kubernetes import client
    except ImportError as error:
        raise UserError(
            f"manifests of Kubernetes are made by its client for Python, which is not installed "
            f"({error}): pip install 'seqloom[kubernetes]'"
        ) from None
    return client


def to_yaml(manifests: Sequence[Any]) -> str:
    """Write manifests, one document each; what is not set is left out.

    Args:
        manifests: Models of the client, or dictionaries of what it has no model for.

    Raises:
        UserError: If the client is not installed.
    """
    plain = kubernetes_models().ApiClient().sanitize_for_serialization(list(manifests))
    return yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=100)
