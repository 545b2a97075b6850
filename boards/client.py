"""The line to a board."""

from typing import Any

from cli.errors import ToolError

from litex.tools.litex_client import RemoteClient


class Client(RemoteClient):
    """LiteX's client; a read without an answer is an error, where LiteX's own returns 0."""

    def receive_packet(self, *arguments: Any) -> Any:
        try:
            packet = super().receive_packet(*arguments)
        except ConnectionError:
            packet = 0
        if packet == 0:
            raise ToolError(
                "the board does not answer: is it on, is this its bitstream, and has litex_server "
                "the right port and --uart-baudrate?"
            )
        return packet
