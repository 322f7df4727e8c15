-- Parts on their way to a commit, with the time after which they go by themselves: at no moment are
-- they there without. ARGV is the seconds of that, and names and values.

redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
