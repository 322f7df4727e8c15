-- Carries out a change, whole or not at all: checks first, and the first that fails ends it before
-- anything is written. ARGV is a list of steps: a word, how many arguments follow, and these.
-- KEYS[1] is the key of the thread; all others begin with it, except those of hints.

local thread = KEYS[1]
local call = redis.call
local steps = {}

-- The version and the seal of the thread's row that the change was decided on.
function steps.seen(args)
  local found = call('HMGET', thread, 'v', 't')
  if found[1] ~= args[1] or not found[2] or sub(found[2], -8) ~= args[2] then return 'moved' end
end

function steps.absent()
  if call('HEXISTS', thread, 't') == 1 then return 'moved' end
  if call('EXISTS', thread, thread .. ':c', thread .. ':i', thread .. ':p') > 0 then
    return 'torn'
  end
end

function steps.unused(args)
  for _, id in ipairs(args) do
    if call('HEXISTS', thread .. ':i', id) == 1 then return 'id' end
    if call('SISMEMBER', thread .. ':y', id) == 1 then return 'id' end
  end
end

function steps.vacant(args)
  for _, name in ipairs(args) do
    if call('HEXISTS', thread .. ':e', name) == 1 then return 'moved' end
  end
end

function steps.free(args)
  for _, place in ipairs(args) do
    if call('HEXISTS', thread .. ':p', place) == 1 then return 'stream' end
  end
end

-- Streams that are to be new: if one is not, their highest number is told.
function steps.novel(args)
  for _, stream in ipairs(args) do
    if call('SISMEMBER', thread .. ':z', stream) == 1 then
      local last = 0
      for _, each in ipairs(call('SMEMBERS', thread .. ':z')) do
        last = math.max(last, tonumber(each) or 0)
      end
      return 'number ' .. whole(last)
    end
  end
end

-- A hint that another thread wrote: whether that is still so, the caller finds out.
function steps.ours(args)
  local owner = call('HGET', args[2], args[3])
  if owner and (args[1] == 'new' or owner ~= args[4]) then
    return args[1] .. ' ' .. owner .. ' ' .. args[3]
  end
end

function steps.staged(args)
  if call('HLEN', args[1]) ~= tonumber(args[2]) then return 'unstaged' end
end

-- Parts that were sent before.
function steps.unstage(args)
  local parts = thread .. ':p'
  if call('EXISTS', parts) == 0 then
    call('RENAME', args[1], parts)
    call('PERSIST', parts)
    return
  end
  local found = call('HGETALL', args[1])
  for first = 1, #found, 2000 do
    call('HSET', parts, unpack(found, first, math.min(first + 1999, #found)))
  end
  call('UNLINK', args[1])
end

-- What is said to be the newest: never an older one than before.
function steps.advance(args)
  for at = 2, #args, 2 do
    local old = call('HGET', args[1], args[at])
    local number = old and tonumber(string.match(old, '^%d+') or 'inf') or -1
    if number < tonumber(string.match(args[at + 1], '^%d+')) then
      call('HSET', args[1], args[at], args[at + 1])
    end
  end
end

-- A thread of which every checkpoint expires goes as a whole, all keys at one moment, when the last
-- one is long over its time and nobody has used it for as long; any other stays.
function steps.lasting(args)
  local expires = args[1] == 'no'
  local left = call('PTTL', thread)
  if not expires and left <= 0 then return end
  local last = call('ZREVRANGE', thread .. ':x', 0, 0, 'WITHSCORES')
  for _, suffix in ipairs(SUFFIXES) do
    if args[1] == 'same' then
      call('PEXPIRE', thread .. suffix, left)
    elseif expires and last[2] then
      local used = math.max(tonumber(last[2]), tonumber(args[3]))
      call('PEXPIREAT', thread .. suffix, whole(used / 1000 + tonumber(args[2])))
    else
      call('PERSIST', thread .. suffix)
    end
  end
end

-- Wakes who watches: then the stream is there, and only then. That it cannot be done, because the
-- key is something else's or the user may not, is no reason to fail in the middle of a change.
function steps.tell()
  redis.pcall('XADD', thread .. NEWS, 'NOMKSTREAM', 'MAXLEN', 1, '*', 'n', '')
end

local at = 1
while at <= #ARGV do
  local word, count = ARGV[at], tonumber(ARGV[at + 1])
  local args = some(at + 2, at + 1 + count)
  at = at + 2 + count
  if steps[word] then
    local refusal = steps[word](args)
    if refusal then return refusal end
  else
    call(word, unpack(args))
  end
end
return 'done'
