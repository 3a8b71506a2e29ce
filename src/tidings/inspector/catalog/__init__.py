"""The catalog: the servers that a user knows, in a file that other programs understand.

    catalog = Catalog(user_catalog(os.environ, sys.platform, Path.home()))
    catalog.add(ServerEntry("weather", command="uvx", args=("weather",)))
    resolve("weather", catalog).resolved(os.environ)

The file is `{"mcpServers": {name: entry}}` (see `entry`), readable for its owner alone. `read_only` is for files of
other programs: any file with `mcpServers` or `servers` in it can be read as a catalog. Nothing here imports the SDK.
"""
