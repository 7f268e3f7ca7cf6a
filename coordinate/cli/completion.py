"""The completion script of a shell, and the version."""

from __future__ import annotations

from coordinate.cli.declared import OUTPUT_ONLY, OneOf, argument, command
from coordinate.cli.shared import BadUsage, Call


@command("completion", example='eval "$(coordinate completion bash)"', takes=OUTPUT_ONLY)
@argument("shell", type=OneOf("bash", "zsh", "fish"), metavar="bash|zsh|fish", required=False)
def completion(call: Call, shell: str | None) -> None:
    """Print the completion script for a shell; put it where that shell looks at its start."""
    if shell is None:
        raise BadUsage("name your shell: bash, zsh or fish")
    from click.shell_completion import get_completion_class

    from coordinate.cli.root import root

    maker = get_completion_class(shell)
    assert maker is not None
    call.show_text(maker(root, {}, "coordinate", "_COORDINATE_COMPLETE").source(), "script")


@command("version", example="coordinate version", takes=OUTPUT_ONLY)
def version(call: Call) -> None:
    """Print the version."""
    from coordinate import __version__

    call.show({"version": __version__})
