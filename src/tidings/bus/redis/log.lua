local LOG, CHANGES, TIMES = KEYS[1], KEYS[2], KEYS[3]
local told_epoch, told, told_by_us = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local fresh, durable, probe, channel = ARGV[4], ARGV[5] == '1', ARGV[6] == '1', ARGV[7]
local page, most, age = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local fresh_term, known_term, has_term = ARGV[11], ARGV[12], ARGV[13] == '1'
local FIRST_KEY = 14  -- then the keys of the changes

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
local log = redis.call('HMGET', LOG, 'schema', 'epoch', 'version', 'floor', 'entries', 'run', 'term')
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
local appending = #ARGV >= FIRST_KEY
local term, terms = log[7] or '', false
if begun or log[6] ~= run or (appending and not has_term) then
  terms = begun and '' or redis.call('HGET', LOG, 'terms') or ''
  local _, count = terms:gsub('%S+', '')
  if count >= @MOST@ then terms = terms:gsub('^(%S+) %S+', '%1', 1) end
  term, terms = fresh_term, (terms == '' and '' or terms .. ' ') .. text(version) .. '-' .. fresh_term
  redis.call('HSET', LOG, 'term', term, 'terms', terms)
elseif term ~= known_term then
  terms = redis.call('HGET', LOG, 'terms') or ''
end
if probe then
  -- What is not permitted is to be known now, and not when it is needed.
  redis.call('ZADD', CHANGES, 'XX', '0', '')
  redis.call('ZREM', CHANGES, '')
  redis.call('HDEL', TIMES, '')
end

-- The changes.
local now
if appending then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
  for n = FIRST_KEY, #ARGV do
    version = version + 1
    entries = entries + redis.call('ZADD', CHANGES, text(version), ARGV[n])
    redis.call('HSET', TIMES, ARGV[n], string.format('%.6f', now))
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
  for _ = 1, #ARGV + 1000 do
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
return cjson.encode({epoch, text(version), news, term, terms})
