"""Classes of messages that no installed package brings, from tables of their fields."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

# By name: its number, and its type, that of another message by its name with a dot before it. A
# type in a list makes the field repeated.
Fields = Mapping[str, tuple[int, int | str | list[int] | list[str]]]

_REPEATED = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_SINGLE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE


def message_classes(name: str, package: str, messages: Mapping[str, Fields]) -> dict[str, Any]:
    """Make the classes of messages.

    They live in a descriptor pool of their own, should another package bring them after all.

    Args:
        name: Name of the file that describes them.
        package: The messages' package.
        messages: The fields by message.

    Returns:
        The classes by message.
    """
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for message_name, fields in messages.items():
        described = file.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            _add_field(described, field_name, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        one: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{one}"))
        for one in messages
    }


def _add_field(
    described: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: int | str | list[int] | list[str],
) -> None:
    field = described.field.add(name=name, number=number, label=_SINGLE)
    if isinstance(kind, list):
        field.label, kind = _REPEATED, kind[0]
    if isinstance(kind, str):
        field.type, field.type_name = _MESSAGE, kind
    else:
        field.type = kind  # type: ignore[assignment]
