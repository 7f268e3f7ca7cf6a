"""The door for agents that speak MCP: tools, resources and waits, made from the list of operations.

Only this room imports the SDK; `coordinate.http` serves the same tools to other machines.
"""
