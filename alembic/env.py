"""Alembic's entry: everything that matters is in `coordinate.db.env`, so that a wheel and a checkout do the same."""

from alembic import context

from coordinate.db import env

env.run(context)
