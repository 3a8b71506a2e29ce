"""The script that is the log of a `RedisBus`: Redis runs it as one step, whatever else it is asked at the time.

Three keys hold the log; they have one hash tag, so that a cluster keeps them together:
- `{prefix}:log`, a hash: the epoch, the newest version, the floor (the highest version that was trimmed), the number of
  entries, and the run of the server under which it was last used;
- `{prefix}:changes`, a sorted set: each distinct change by its key, with its newest version;
- `{prefix}:times`, a hash: when each of them was published, by the server's clock.

Why a cursor never lies
-----------------------
A cursor is (epoch, version). It may be trusted if between the moment when it was given and the moment when it is
looked at, the log was one unbroken line: nothing that was acknowledged is missing, no version was given twice. Redis
breaks that line in three ways:

1. Keys go: FLUSHALL, a lost file, an eviction. Without the hash there is no epoch, so a new one begins. With only one
   of the other keys gone, the number of entries is no longer the noted one, and a new one begins as well.
2. The server starts again from what its disk had, which may lack the last second (`appendfsync everysec`) or more.
3. A replica that lags becomes the master. Or the master is set aside, takes over the other's data, and is master again.

After 2 and 3 the hash is there, with an older version under the same epoch. It is not enough that whoever knows a
higher version notices: another process may publish first and bring the version up again, with other changes under the
same numbers. And even where no number is given twice, acknowledged changes are missing, and those who know of them may
have ended with the server: a subscriber that had not heard of them would never. Nothing in the data can tell, so what
tells is the server: `run_id` is new at each start, `master_replid` at each start and at each promotion. Both are noted
with the log, and compared within each call, in the same step that reads or writes. Where they differ, a new epoch
begins before anything is answered. So an epoch never goes beyond one time in which one process was master all the
while and had the keys all the while, and within that Redis is one thread with one memory: the line is unbroken.
(The first replica of a master, and an hour without any, give it a new `master_replid` too: then an epoch ends for
nothing, which costs everyone a look, and is true.)

With `durable` the user says that this server loses nothing that it acknowledged (`appendfsync always`). Then a new run
keeps the epoch, unless it came of a promotion (`master_replid2` is set): replicas may lag whatever is synced.

Beyond that, a version below one that the caller was told begins a new epoch too: somebody has put back older keys.
"""

from typing import Final

SCHEMA: Final = "1"
FOREIGN: Final = "TIDINGS-FOREIGN"
UNKNOWN_SCHEMA: Final = "TIDINGS-SCHEMA"
NO_RUN: Final = "TIDINGS-NO-RUN"

_LUA = """
local LOG, CHANGES, TIMES = KEYS[1], KEYS[2], KEYS[3]
local told_epoch, told, told_by_us = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local fresh, durable, probe, channel = ARGV[4], ARGV[5] == '1', ARGV[6] == '1', ARGV[7]
local page, most, age = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local FIRST_KEY = 11  -- then: key, how many versions, key, how many versions ...

local function text(number) return string.format('%.0f', number) end

-- The run of the server.
local replication = redis.call('INFO', 'replication')
if not replication:find('role:master', 1, true) then
  return redis.error_reply("READONLY You can't write against a read only replica.")
end
local run_id = redis.call('INFO', 'server'):match('run_id:(%w+)')
local line = replication:match('master_replid:(%w+)')
if not (run_id and line) then return redis.error_reply('TIDINGS-NO-RUN') end
local run = run_id .. '-' .. line
local promoted = (replication:match('master_replid2:(%w+)') or ''):find('[^0]') ~= nil

-- The log. Each key is looked at before any is written: one of another type ends the script here.
local log = redis.call('HMGET', LOG, 'schema', 'epoch', 'version', 'floor', 'entries', 'run')
local entries = redis.call('ZCARD', CHANGES)
local times = redis.call('HLEN', TIMES)
if log[1] ~= '@SCHEMA@' then
  if log[1] then return redis.error_reply('TIDINGS-SCHEMA ' .. log[1]) end
  if redis.call('EXISTS', LOG) == 1 then return redis.error_reply('TIDINGS-FOREIGN ' .. LOG) end
end
local epoch, version, floor = log[2], tonumber(log[3] or 0), tonumber(log[4] or 0)
local whole = epoch and tonumber(log[5]) == entries and times == entries
local same_run = log[6] == run or (durable and not promoted)
local behind = told_by_us and told_epoch == epoch and told > version
local begun = not whole or not same_run or behind
if begun then
  epoch, floor, entries = fresh, version, 0
  -- First what needs memory: if there is none left, nothing has happened.
  redis.call('HSET', LOG, 'schema', '@SCHEMA@', 'epoch', epoch, 'version', text(version), 'floor', text(floor),
    'entries', '0', 'run', run)
  redis.call('UNLINK', CHANGES, TIMES)
elseif probe or log[6] ~= run then
  redis.call('HSET', LOG, 'run', run)
end
if probe then
  -- What is not permitted is to be known now, and not when it is needed.
  redis.call('ZADD', CHANGES, 'XX', '0', '')
  redis.call('ZREM', CHANGES, '')
  redis.call('HDEL', TIMES, '')
end

-- The changes.
local places = {}
local appending = #ARGV >= FIRST_KEY
local now
if appending then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
  for n = FIRST_KEY, #ARGV, 2 do
    version = version + tonumber(ARGV[n + 1])
    entries = entries + redis.call('ZADD', CHANGES, text(version), ARGV[n])
    redis.call('HSET', TIMES, ARGV[n], string.format('%.6f', now))
    places[#places + 1] = text(version)
  end
end

-- What is new after `told`. Before anything is trimmed: what does not stay is still told.
local news = false
if told_epoch == epoch and floor <= told and told <= version then
  news = redis.call('ZRANGEBYSCORE', CHANGES, '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, page)
end

-- What the history has no room for, from the oldest on. Entries whose time is wrong, because the clock was, can keep
-- others for longer, but never beyond the number. If there is very much to trim, the next calls go on with it.
if appending then
  for _ = 1, #places + 1000 do
    local oldest = redis.call('ZRANGE', CHANGES, 0, 0, 'WITHSCORES')
    local at = tonumber(redis.call('HGET', TIMES, oldest[1]) or 0)
    if entries <= most and at >= now - age then break end
    redis.call('ZREM', CHANGES, oldest[1])
    redis.call('HDEL', TIMES, oldest[1])
    floor, entries = tonumber(oldest[2]), entries - 1
  end
  redis.call('HSET', LOG, 'version', text(version), 'floor', text(floor), 'entries', text(entries))
end
if appending or begun or probe then redis.call('PUBLISH', channel, epoch .. ' ' .. text(version)) end

-- One text, which is quicker to read than many.
return cjson.encode({epoch, text(version), news, places})
"""

SCRIPT: Final = _LUA.replace("@SCHEMA@", SCHEMA).strip()
