"""Mechanisms that exist once and serve every room. What differs between two users is a parameter.

    sqlite          a database in a file: opened, owned, shared, recovered
    sqlite_errors   the errors of a database in words
    files           files shared by programs: bounded reading, locks, replacement in one step
    diff            where two sequences differ, in bounded work: words, hunks, unified text
    pool            child processes with deadlines and memory limits
    worker          the child of every pool, and the frames between the two
    backoff         pauses between attempts, jitter, `Retry-After`
    bounded_json    JSON that nobody has checked: safe access, weight, cuts
    suggest         the closest known names
    patterns        foreign regular expressions, with a deadline
    decompress      gzip, deflate and brotli within a limit
    process         signals to a whole process group; why a program cannot start
    program         a child process under asyncio: started, and ended in steps
    tasks           small asyncio parts: wake-ups, background tasks, shared contexts, single flight
    text            text for people: one line, shortened, sizes, durations
    uri_templates   RFC 6570: expand, match
    event_wire      MCP Events on the wire: names, error codes, signatures of webhooks
    addresses       the SSRF rules: which addresses may be connected to
    address_guard   connections to checked addresses only
    uvicorn_seam    everything of uvicorn's that is not public API
    telemetry       spans and metrics through the OpenTelemetry API, and the list of all metrics
    lazy            names imported at first use, and missing packages

A kit file imports `errors` and the standard library; third-party packages only late, in the seams, except
that `telemetry` imports the OpenTelemetry API, and `address_guard` httpcore.
"""
