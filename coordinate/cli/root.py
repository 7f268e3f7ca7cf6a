"""The command line as click sees it: commands and their parameters made from what is declared, and the groups."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from coordinate.cli import commands
from coordinate.cli.commands import GROUPS, ROOT, TASK, Table
from coordinate.cli.declared import GLOBAL_OPTIONS, Argument, Kind, OneOf, Option, Parameter, Verb
from coordinate.cli.shared import Call, pointing

HELP: dict[str, Any] = {"help_option_names": ["--help", "-h"]}
# What other tools call it: nobody who wants to create a task shall be led to a token.
OTHER_WORDS = {
    **dict.fromkeys(("create", "add", "new"), "dispatch"),
    **dict.fromkeys(("show", "get"), "view"),
    **dict.fromkeys(("update", "set"), "edit"),
    **dict.fromkeys(("start", "take"), "claim"),
    **dict.fromkeys(("finish", "done", "close"), "complete"),
    **dict.fromkeys(("delete", "remove"), "cancel"),
}


class Command(click.Command):
    """A verb. Its flags also take `=true` and `=false`, and its options with one value are given once."""

    def __init__(self, verb: Verb) -> None:
        params = [_parameter(each, shown=verb.shown) for each in verb.takes]
        function = click.pass_obj(verb.function)
        # A -h among the words of a command that is to be run is that command's.
        runs = any(str(each.attributes.get("metavar")).startswith("--") for each in verb.takes)
        settings = {"help_option_names": ["--help"]} if runs else HELP
        super().__init__(verb.name, params=params, callback=function, help=verb.help, context_settings=settings)
        self.verb = verb

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with pointing(ctx.ensure_object(Call), ctx.command_path, self.verb):
            return super().parse_args(ctx, _plain_flags(args, self.params))

    def invoke(self, ctx: click.Context) -> Any:
        with pointing(ctx.ensure_object(Call), ctx.command_path, self.verb):
            return super().invoke(ctx)

    def make_parser(self, ctx: click.Context) -> Any:
        return _each_once(super().make_parser(ctx), ctx)


def _parameter(declared: Parameter, *, shown: tuple[str, ...] | None) -> click.Parameter:
    attributes = dict(declared.attributes)
    if isinstance(declared.kind, OneOf):
        attributes["type"] = click.Choice(declared.kind.words)
    elif isinstance(declared.kind, Kind):
        attributes["type"] = _Type(declared.kind)
    if isinstance(declared, Argument):
        return click.Argument([declared.name], **attributes)
    assert isinstance(declared, Option)
    if declared.sets:
        attributes |= {"expose_value": False, "callback": _remember}
        attributes["hidden"] = shown is not None and declared in GLOBAL_OPTIONS and declared.opts[0] not in shown
    made = click.Option(declared.names, **attributes)
    made.sets = declared.sets  # type: ignore[attr-defined]
    return made


def _remember(ctx: click.Context, param: Any, value: Any) -> None:
    if value is not None and value is not False:
        ctx.ensure_object(Call).remember(param.sets, value)


class _Type(click.ParamType):  # type: ignore[type-arg]
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.kind.read(value, (param.name if param else None) or self.name)


def _each_once(parser: Any, ctx: click.Context) -> Any:
    """Let a parser refuse an option that takes one value and was given two: the last would win unseen.

    Whatever it refuses, it says for which command.
    """
    parse = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        try:
            found = parse(args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # some of them do not say whose option it was
            raise
        seen: set[str | None] = set()
        for param in found[2]:  # as they were given
            if not isinstance(param, click.Option) or param.multiple or param.is_flag or param.count:
                continue
            if param.name in seen and not ctx.resilient_parsing:
                raise click.UsageError(f"{param.opts[-1]} is given twice, and takes one value", ctx)
            seen.add(param.name)
        return found

    parser.parse_args = parse_args
    return parser


def _plain_flags(args: list[str], params: list[click.Parameter]) -> list[str]:
    """`--review=true` as `--review`, `--review=false` as `--no-review` where there is one, else left out."""
    options = [param for param in params if isinstance(param, click.Option)]
    flags = {name: option for option in options if option.is_flag for name in option.opts}
    with_value = {name for option in options if not option.is_flag for name in option.opts}
    plain: list[str] = []
    rest = iter(args)
    for arg in rest:
        name, _, value = arg.partition("=")
        if arg == "--":
            return [*plain, arg, *rest]
        if name in flags and value.lower() in ("true", "t", "1"):
            plain.append(name)
        elif name in flags and value.lower() in ("false", "f", "0"):
            plain += flags[name].secondary_opts[:1]
        else:
            plain.append(arg)
            if arg in with_value:
                plain += [following for following in (next(rest, None),) if following is not None]
    return plain


class LazyGroup(click.Group):
    """A group that knows its commands from a table; each is loaded when it is called, and takes the global options."""

    def __init__(self, name: str, table: Table, *, takes: tuple[str, ...] | None = None, **attributes: Any) -> None:
        super().__init__(name, callback=_help_alone, invoke_without_command=True, context_settings=HELP, **attributes)
        self.table = table
        self.params += [_parameter(each, shown=takes) for each in GLOBAL_OPTIONS]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, attribute, _ = self.table[cmd_name]
        found = getattr(import_module(f"coordinate.cli.{module}"), attribute)
        assert isinstance(found, Verb | LazyGroup)
        return Command(found) if isinstance(found, Verb) else found

    def make_parser(self, ctx: click.Context) -> Any:
        return _each_once(super().make_parser(ctx), ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]!r}{self._meant(ctx.command_path, args[0])}")
        return super().resolve_command(ctx, args)

    def _meant(self, path: str, typed: str) -> str:
        """What is called so elsewhere, else the command of that name in another group, else the nearest in this one."""
        from difflib import get_close_matches

        if typed in OTHER_WORDS and path in ("coordinate", "coordinate task"):
            return f"; did you mean `coordinate task {OTHER_WORDS[typed]}`?"
        elsewhere = [f"coordinate {group} {typed}" for group, table in GROUPS.items() if typed in table]
        if typed in ROOT:
            elsewhere.insert(0, f"coordinate {typed}")
        found = elsewhere or [f"{path} {name}" for name in get_close_matches(typed, list(self.table), n=1)]
        return f"; did you mean `{found[0]}`?" if found else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self.table.items()])


@click.pass_context
def _help_alone(ctx: click.Context) -> None:
    """A group without a command says what it has."""
    ctx.ensure_object(Call)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _print_version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        from coordinate import __version__

        sys.stdout.write(f"coordinate {__version__}\n")
        ctx.exit()


task = LazyGroup("task", commands.TASK, help=ROOT["task"][2])
batch = LazyGroup("batch", commands.BATCH, help=TASK["batch"][2])
depend = LazyGroup("depend", commands.DEPEND, help=TASK["depend"][2])
events = LazyGroup("events", commands.EVENTS, help=ROOT["events"][2])
plan = LazyGroup("plan", commands.PLAN, help=ROOT["plan"][2])
project = LazyGroup("project", commands.PROJECT, help=ROOT["project"][2])
agent = LazyGroup("agent", commands.AGENT, help=ROOT["agent"][2])
lease = LazyGroup("lease", commands.LEASE, help=ROOT["lease"][2])
lock = LazyGroup("lock", commands.LOCK, help=ROOT["lock"][2])
counter = LazyGroup("counter", commands.COUNTER, help=ROOT["counter"][2])
worktree = LazyGroup("worktree", commands.WORKTREE, help=ROOT["worktree"][2])
replay = LazyGroup("replay", commands.REPLAY, help=ROOT["replay"][2])
inbox = LazyGroup("inbox", commands.INBOX, help=ROOT["inbox"][2])
board = LazyGroup("board", commands.BOARD, help=ROOT["board"][2])
guard = LazyGroup("guard", commands.GUARD, help=ROOT["guard"][2])
harness = LazyGroup("harness", commands.HARNESS, help=ROOT["harness"][2])
token = LazyGroup("token", commands.TOKEN, help=ROOT["token"][2])
webhook = LazyGroup("webhook", commands.WEBHOOK, help=ROOT["webhook"][2])
db = LazyGroup("db", commands.DB, help=ROOT["db"][2])
root = LazyGroup(
    "coordinate",
    ROOT,
    params=[click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_print_version)],
    help="""One shared truth for many agents: who does what, and what was learned.

    \b
    The first three commands:
      coordinate init
      coordinate task dispatch --title "Write the parser" --role worker
      coordinate task claim-next --agent alice --role worker

    The answer's "claim" (TASK-1@1) is your handle: show it with every verb that follows, such as
    `coordinate task complete TASK-1@1 --agent alice`. Without work for you the answer is {}.
    """,
    epilog="""\b
    Output: JSON on stdout; an error is one JSON line on stderr: error, code, hint.
    Exit:   0 done, or nothing to do        1 a fault of ours
            2 refused, or bad usage         3 held by another
            4 stale claim, old revision     5 try again
            6 no board, or wrong schema     7 moved: the board is elsewhere
            8 waited in vain                129, 130, 143 signals
            141 output not read to its end
    """,
)
