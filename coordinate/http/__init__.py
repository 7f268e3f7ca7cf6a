"""The door for other machines and for browsers: MCP, a JSON API, events and figures over HTTP.

Only this room imports starlette and uvicorn. `gate.py` stands before everything; `app.py` lists what is behind it. A
page adds its routes to `app.routes` and its files to this package.
"""
