"""The commands by name. Nothing of a command is loaded before it is called: its help line stands here."""

from __future__ import annotations

# name: (module of coordinate.cli, attribute, what it does)
Table = dict[str, tuple[str, str, str]]

TASK: Table = {
    "dispatch": ("tasks", "dispatch", "Put a new task into the queue of a role."),
    "claim-next": ("claims", "claim_next", "Take the next ready task of a role."),
    "claim": ("claims", "claim", "Take one task by its id."),
    "mine": ("claims", "mine", "List what an agent holds, with the handles."),
    "log-progress": ("claims", "log_progress", "Note what was done or found, and renew the lease."),
    "extend-lease": ("claims", "extend_lease", "Renew the lease without a note."),
    "complete": ("claims", "complete", "Finish a task, or submit it for review."),
    "block": ("claims", "block", "Give a task back as BLOCKED, with the reason."),
    "release": ("claims", "release", "Give a task back to the queue."),
    "transfer": ("claims", "transfer", "Hand a held task to another agent."),
    "claim-review": ("review", "claim_review", "Reserve the next submitted task for this reviewer."),
    "approve": ("review", "approve", "Pass the review of a task, or of all."),
    "reject": ("review", "reject", "Send a task back to the queue, with the reason."),
    "unblock": ("tasks", "unblock", "Put a BLOCKED task back into the queue."),
    "cancel": ("tasks", "cancel", "End a task that nobody shall do any more."),
    "reopen": ("tasks", "reopen", "Put a finished or cancelled task back into the queue."),
    "comment": ("tasks", "comment", "Write a note on any task."),
    "edit": ("tasks", "edit", "Change what a task says."),
    "depend": ("root", "depend", "Add or remove a dependency between two tasks."),
    "batch": ("root", "batch", "Claim, complete or change several tasks at once."),
    "view": ("looks", "view", "Show a task's whole story, newest first."),
    "list": ("looks", "list_tasks", "List tasks in the queue's order, page by page."),
    "search": ("looks", "search", "List tasks by their facts and their words."),
    "why": ("looks", "why", "Say what a task waits for."),
    "why-idle": ("looks", "why_idle", "Say why a role finds nothing to claim."),
    "stats": ("looks", "stats", "Count tasks by status and role."),
}

BATCH: Table = {
    "claim": ("batch", "claim", "Take up to N ready tasks of a role in one step."),
    "complete": ("batch", "complete", "Finish several tasks; each answers for itself."),
    "set-priority": ("batch", "set_priority", "Give several tasks one priority."),
    "set-project": ("batch", "set_project", "Move several tasks to one project."),
}

DEPEND: Table = {
    "add": ("tasks", "depend_add", "Let a task wait for another one too."),
    "remove": ("tasks", "depend_remove", "Let a task wait for another one no longer."),
}

EVENTS: Table = {
    "list": ("events", "list_events", "Show the newest events."),
    "search": ("events", "search", "Find events by their words."),
    "tail": ("events", "tail", "Print events as they happen, one a line."),
    "next": ("events", "next_events", "Hand a consumer the events it has not acknowledged."),
    "ack": ("events", "ack", "Say that a consumer has finished with events."),
    "rewind": ("events", "rewind", "Let a consumer read again from an earlier place."),
    "emit": ("events", "emit", "Log an event of any type."),
}

PLAN: Table = {
    "lint": ("plan", "lint", "Say what is wrong with a plan file, or with the board."),
    "dispatch": ("plan", "dispatch", "Put all tasks of a plan file into the queue."),
}

PROJECT: Table = {
    "set": ("project", "set_defaults", "Set what claims and new tasks of a project get."),
    "list": ("project", "list_projects", "List the projects and their settings."),
    "close": ("project", "close", "Take a project's asks out of sight."),
    "reopen": ("project", "reopen", "Bring a closed project back into sight."),
}

AGENT: Table = {
    "register": ("agents", "register", "Begin a session of an agent."),
    "heartbeat": ("agents", "heartbeat", "Give a sign of life."),
    "doing": ("agents", "set_doing", "Say what the session is at."),
    "lost": ("agents", "lost", "Say what the session lost."),
    "end": ("agents", "end", "End the session and release what it holds."),
    "list": ("agents", "list_agents", "List agents, live or not."),
    "sessions": ("agents", "list_sessions", "List sessions, live or stale."),
}

LEASE: Table = {
    "claim": ("leases", "claim", "Claim paths or globs, all or none."),
    "check": ("leases", "check", "Say whether paths are free."),
    "list": ("leases", "list_scopes", "List who holds which paths until when."),
    "renew": ("leases", "renew", "Renew leases by their fences."),
    "release": ("leases", "release", "Release leases."),
}

LOCK: Table = {
    "acquire": ("leases", "acquire", "Take a named lock."),
    "renew": ("leases", "renew_lock", "Renew a lock by its fence."),
    "release": ("leases", "release_lock", "Give a lock back."),
    "list": ("leases", "list_locks", "List held locks."),
    "run": ("lock_run", "run", "Run a command while holding a lock."),
}

COUNTER: Table = {"next": ("agents", "counter_next", "Mint numbers of a kind, above a floor.")}

WORKTREE: Table = {
    "open": ("worktrees", "open_worktree", "Open a working copy for a held task."),
    "state": ("worktrees", "set_state", "Say where its changes stand."),
    "close": ("worktrees", "close", "Close it as merged."),
    "abort": ("worktrees", "abort", "Close it without merging."),
    "adopt": ("worktrees", "adopt", "Go on in one that another left open."),
    "show": ("worktrees", "show", "Show the open one of a task."),
    "list": ("worktrees", "list_worktrees", "List worktrees."),
}

REPLAY: Table = {
    "mark": ("agents", "mark", "Note that a stream has applied events."),
    "show": ("agents", "show", "List what a stream has applied."),
}

GUARD: Table = {
    "install": ("guard", "install", "Write a git pre-commit hook that asks the board."),
    "check": ("guard", "check", "Ask the board about the paths of a commit, or of an editor."),
    "snippet": ("guard", "snippet", "Print the hook for an agent's own editor calls."),
}

BOARD: Table = {
    "upsert": ("board", "upsert", "Write a whole board from a file."),
    "row": ("board", "row", "Write one row."),
    "advance": ("board", "advance", "Set the human's next step on a row."),
    "get": ("board", "get", "Show a board with its rows."),
    "list": ("board", "list_boards", "List boards with their progress."),
    "annotate": ("board", "annotate", "Say something beside a row."),
    "archive": ("board", "archive", "Take a board off the list."),
    "unarchive": ("board", "unarchive", "Bring a board back."),
}

INBOX: Table = {
    "ask": ("inbox", "ask", "Ask a human, or tell them something."),
    "revise": ("inbox", "revise", "Put an ask in other words."),
    "withdraw": ("inbox", "withdraw", "Take your ask back."),
    "wait": ("inbox", "wait", "Wait for the response to an ask."),
    "pending": ("inbox", "pending", "Collect what humans have said."),
    "take": ("inbox", "take", "Say that you act on a response."),
    "answer": ("inbox", "answer", "Record what the human said in chat."),
    "ack": ("inbox", "ack", "Say that you have finished with a response."),
    "list": ("inbox", "list_asks", "List asks by number."),
    "search": ("inbox", "search", "List asks by their words."),
    "show": ("inbox", "show", "Show all about an ask."),
    "watch": ("inbox", "watch", "Print what needs the human, as it comes."),
    "respond": ("inbox", "respond", "Respond to an ask."),
    "snooze": ("inbox", "snooze", "Put an ask out of sight for a while."),
    "wake": ("inbox", "wake", "Bring a snoozed ask back into sight."),
    "dismiss": ("inbox", "dismiss", "Close an ask without an answer."),
    "annotate": ("inbox", "annotate", "Say something beside an ask."),
    "unannotate": ("inbox", "unannotate", "Take an annotation back."),
}

HARNESS: Table = {
    "session-start": ("harness", "session_start", "Begin the agent's session, or go on with it."),
    "prompt-submit": ("harness", "prompt_submit", "Hand along what is new, beside a prompt."),
    "stop": ("harness", "stop", "Keep an agent going that has an unread answer."),
}

TOKEN: Table = {
    "create": ("tokens", "create", "Make a token for an agent or a human."),
    "list": ("tokens", "list_tokens", "List tokens and their last use."),
    "revoke": ("tokens", "revoke", "End a token at once."),
}

WEBHOOK: Table = {
    "list": ("webhook", "list_webhooks", "Say how each webhook stands."),
    "test": ("webhook", "test", "Send a webhook a test."),
    "run": ("webhook", "run", "Deliver webhooks without a server."),
}

DB: Table = {
    "where": ("database", "where", "Say which board is meant, and why."),
    "upgrade": ("database", "upgrade", "Bring a board to the newest schema; makes it if it is not there."),
    "downgrade": ("database", "downgrade", "Take a board back to an older schema."),
    "current": ("database", "current", "Say where a board's schema stands."),
    "check": ("database", "check", "Compare a board's tables with what this program expects."),
    "history": ("database", "history", "List the migrations."),
    "sql": ("database", "sql", "Print the migrations as plain SQL."),
    "ini": ("database", "ini", "Print an alembic.ini for DBAs."),
    "grant": ("database", "grant", "Print the GRANTs for the role that runs the program."),
    "backup": ("database", "backup", "Copy a board into one file, while others use it."),
    "restore": ("database", "restore", "Put a backup in the place of a board."),
    "doctor": ("database", "doctor", "Say what is wrong with a board, and mend what can be."),
    "move": ("database", "move", "Move a board to another database, and prove that all came."),
    "adopt": ("adopt", "adopt", "Take over a board of the kanban tool."),
}

ROOT: Table = {
    "task": ("root", "task", "Tasks: dispatch, claim, work, review, look."),
    "batch": ("root", "batch", "Several tasks at once."),
    "status": ("looks", "status", "Say where the board stands, with a burn-down."),
    "events": ("root", "events", "The log of all that happened."),
    "agent": ("root", "agent", "Agents and their sessions: who is alive, who is at what."),
    "lease": ("root", "lease", "Scope leases: who may touch which files."),
    "lock": ("root", "lock", "Named locks."),
    "counter": ("root", "counter", "Counters that mint numbers."),
    "worktree": ("root", "worktree", "Working copies of tasks."),
    "replay": ("root", "replay", "What a stream has applied."),
    "sweep": ("agents", "sweep", "End what is over."),
    "inbox": ("root", "inbox", "The inbox: what agents ask of humans, and what humans say."),
    "board": ("root", "board", "Boards of rows that a human watches."),
    "guard": ("root", "guard", "Guards for commits and editors."),
    "harness": ("root", "harness", "What a coding agent's harness calls by itself."),
    "plan": ("root", "plan", "Plan files: check them, dispatch them."),
    "run": ("run", "run", "Run a command and keep the claim alive while it runs."),
    "project": ("root", "project", "Projects and their settings."),
    "export": ("looks", "export", "Print everything about every task, one a line."),
    "prune": ("looks", "prune", "Remove what has expired."),
    "init": ("init", "init", "Make a board here."),
    "skill": ("init", "skill", "Skills for agents."),
    "serve": ("serve", "serve", "Serve MCP, a JSON API and events over HTTP."),
    "token": ("root", "token", "Tokens that let clients of the server in."),
    "webhook": ("root", "webhook", "Webhooks: events sent to an address."),
    "mcp": ("serve", "mcp", "Serve an MCP client over stdin and stdout."),
    "demo": ("demo", "demo", "Watch many agents share one board, and check the promises."),
    "bench": ("demo", "bench", "Measure this machine."),
    "db": ("root", "db", "The database: where it is, its schema, adoption."),
    "completion": ("completion", "completion", "Print the completion script for a shell."),
    "version": ("completion", "version", "Print the version."),
}


# Where a command stands whose group was forgotten.
GROUPS: dict[str, Table] = {
    "task": TASK,
    "batch": BATCH,
    "events": EVENTS,
    "plan": PLAN,
    "project": PROJECT,
    "agent": AGENT,
    "lease": LEASE,
    "worktree": WORKTREE,
    "inbox": INBOX,
    "board": BOARD,
    "guard": GUARD,
    "harness": HARNESS,
    "token": TOKEN,
    "webhook": WEBHOOK,
    "db": DB,
    "lock": LOCK,
    "counter": COUNTER,
    "replay": REPLAY,
    "task depend": DEPEND,
}
