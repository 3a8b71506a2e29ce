local RECORD, COUNTER = KEYS[1], KEYS[2]
local action, expected, value, milliseconds = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not redis.call('INFO', 'replication'):find('role:master', 1, true) then
  return redis.error_reply("READONLY You can't write against a read only replica.")
end
if action == 'get' then return redis.call('HMGET', RECORD, 'value', 'revision') end
if action == 'delete' then return redis.call('UNLINK', RECORD) end

if expected ~= '' and expected ~= (redis.call('HGET', RECORD, 'revision') or '0') then return false end
-- At least the time in microseconds, so that no revision comes again if the counter is lost.
local time = redis.call('TIME')
local last = tonumber(redis.call('HGET', COUNTER, 'revision') or 0)
local revision = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
redis.call('HSET', COUNTER, 'revision', revision)
redis.call('HSET', RECORD, 'value', value, 'revision', revision)
redis.call('PEXPIRE', RECORD, milliseconds)
return revision
