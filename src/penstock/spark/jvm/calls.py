"""Calls to the JVM without the conversion of arguments, for those that every batch makes."""

from __future__ import annotations

from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import JavaObject


def send(target: Any, method: str, *arguments: str | int | JavaObject | None) -> Any:
    """Call a method of a Java object with arguments that need no conversion.

    py4j asks each of its converters whether it wants an argument that is not a Java object, which
    takes longer than the rest of the call.
    """
    client, identifier = target._gateway_client, target._target_id
    parts = "".join(map(protocol.get_command_part, arguments))
    command = f"{protocol.CALL_COMMAND_NAME}{identifier}\n{method}\n{parts}"
    answer = client.send_command(command + protocol.END_COMMAND_PART)
    # By the name in that module: PySpark replaces it by a function that raises its own errors.
    return java_gateway.get_return_value(answer, client, identifier, method)
