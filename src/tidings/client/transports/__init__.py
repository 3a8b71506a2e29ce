"""The four ways to a server: streamable HTTP (`http`), SSE (`sse`), a command (`stdio`) and memory.

`bodies` limits HTTP bodies. `tap` reports what goes over the wire.
"""
