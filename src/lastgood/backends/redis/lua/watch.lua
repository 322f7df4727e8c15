-- Has commits to a thread add to its stream for a while: KEYS[1] is the stream, ARGV[1] the seconds.
-- Commits add to a stream that is there; so it has an entry, the newest of which is returned.

local stream = KEYS[1]
if redis.call('XLEN', stream) == 0 then redis.call('XADD', stream, '*', 'n', '') end
redis.call('EXPIRE', stream, ARGV[1])
return redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1][1]
