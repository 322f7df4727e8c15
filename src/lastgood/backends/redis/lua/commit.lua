-- Carries out a change, whole or not at all: everything is looked at before anything is written, and
-- the first refusal ends it. ARGV is a list of steps: a word, how many arguments follow, and these.
-- KEYS[1] is the key of the thread; all others begin with it, except those of hints. In a Cluster they
-- are among KEYS too, or a script could run on a slot of which half was moved to another server.
-- A script that fails is not undone. So what a command could be refused for, once others were
-- carried out, is found out before: rights, and keys that something else has. (A server that is
-- full refuses the first writing command, or none.)

local thread = KEYS[1]
local call = redis.call
local NOTHING = thread .. ABSENT  -- no key has this name
local checks, trials, steps = {}, {}, {}

-- The version and the seal of the thread's row that the change was decided on.
function checks.seen(args)
  local found = call('HMGET', thread, 'v', 't')
  if found[1] ~= args[1] or not found[2] or sub(found[2], -8) ~= args[2] then return 'moved' end
end

-- The moment that the change was decided for, and how far off it may be.
function checks.timely(args)
  local time = call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  if math.abs(now - tonumber(args[1])) > tonumber(args[2]) then return 'moved' end
end

function checks.absent()
  if call('HEXISTS', thread, 't') == 1 then return 'moved' end
  if any(thread) then return 'torn' end
end

function checks.unused(args)
  for _, id in ipairs(args) do
    if call('HEXISTS', thread .. ':i', id) == 1 then return 'id' end
    if call('SISMEMBER', thread .. ':y', id) == 1 then return 'id' end
  end
end

function checks.vacant(args)
  for _, name in ipairs(args) do
    if call('HEXISTS', thread .. ':e', name) == 1 then return 'moved' end
  end
end

function checks.free(args)
  for _, place in ipairs(args) do
    if call('HEXISTS', thread .. ':p', place) == 1 then return 'stream' end
  end
end

-- Streams that are to be new: if one is not, their highest number is told.
function checks.novel(args)
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
function checks.ours(args)
  local owner = call('HGET', args[2], args[3])
  if owner and (args[1] == 'new' or owner ~= args[4]) then
    return args[1] .. ' ' .. owner .. ' ' .. args[3]
  end
end

function checks.staged(args)
  if call('HLEN', args[1]) ~= tonumber(args[2]) then return 'unstaged' end
end

-- A reading command for each writing one: it fails where something else has the key.
local TYPES = {HSET = 'HLEN', HINCRBY = 'HLEN', HDEL = 'HLEN', ZADD = 'ZCARD', ZREM = 'ZCARD'}

-- Arguments with which a command changes nothing, for Redis 6.2: it cannot be asked what a user may
-- do. For SADD there are none; it is the first command that writes.
local HARMLESS = {HSET = {'', '', ''}, HINCRBY = {'', ''}, HDEL = {''}, ZADD = {'', ''}, ZREM = {''},
  UNLINK = {}, RENAME = {NOTHING}, PERSIST = {}, PEXPIRE = {'1'}, PEXPIREAT = {'1'}}
local HARMLESS_ERRORS = {'wrong number of arguments', 'is not an? ', 'no such key'}

local function harmless(text)
  for _, each in ipairs(HARMLESS_ERRORS) do
    if string.find(text, each) then return true end
  end
end

local function denied(word, key)
  return {err = 'NOPERM this user may not run ' .. word .. ' on ' .. key}
end

-- What the server says to a command on a key, if it is no.
local function refusal(word, key)
  if redis.acl_check_cmd then
    return not redis.acl_check_cmd(word, key, unpack(HARMLESS[word] or {''})) and denied(word, key)
  end
  local found = HARMLESS[word] and redis.pcall(word, key, unpack(HARMLESS[word]))
  if type(found) ~= 'table' or not found.err or harmless(found.err) then return end
  return string.find(found.err, 'The user executing') and denied(word, key) or found
end

-- Each key is looked at once, and so are the rights to a command: whose rights differ between the
-- keys of a store is refused when these are read.
local looked, allowed = {}, {}

local function trial(word, key)
  if TYPES[word] and not looked[key] then
    call(TYPES[word], key)
    looked[key] = true
  end
  if allowed[word] then return end
  allowed[word] = true
  return refusal(word, key)
end

function trials.SADD(args)
  call('SISMEMBER', args[1], '')
  return trial('SADD', args[1])
end

function trials.HINCRBY(args)
  local found = call('HGET', args[1], args[2])
  if found and not string.find(found, '^-?%d+$') then
    return {err = 'WRONGTYPE no number in ' .. args[1] .. ' ' .. args[2]}
  end
  return trial('HINCRBY', args[1])
end

function trials.UNLINK() return trial('UNLINK', NOTHING) end

function trials.advance(args) return trial('HSET', args[1]) end

-- Parts that were sent before.
function trials.unstage(args)
  if call('EXISTS', thread .. ':p') == 1 then
    return trial('HSET', thread .. ':p') or trial('UNLINK', NOTHING)
  end
  return trial('RENAME', NOTHING) or trial('PERSIST', NOTHING)
end

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
function trials.lasting(args)
  call('ZCARD', thread .. ':x')
  if args[1] == 'no' then return trial('PEXPIREAT', NOTHING) or trial('PERSIST', NOTHING) end
  if call('PTTL', thread) <= 0 then return end
  return trial(args[1] == 'same' and 'PEXPIRE' or 'PERSIST', NOTHING)
end

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
-- key is something else's or the user may not, is no reason to fail.
function trials.tell() end

function steps.tell()
  redis.pcall('XADD', thread .. NEWS, 'NOMKSTREAM', 'MAXLEN', 1, '*', 'n', '')
end

local todo, at = {}, 1
while at <= #ARGV do
  local word, count = ARGV[at], tonumber(ARGV[at + 1])
  local args = some(at + 2, at + 1 + count)
  at = at + 2 + count
  local refused
  if checks[word] then
    refused = checks[word](args)
  else
    todo[#todo + 1] = {word, args}
    if trials[word] then refused = trials[word](args) else refused = trial(word, args[1]) end
  end
  if refused then return refused end
end
for _, step in ipairs(todo) do
  local word, args = step[1], step[2]
  if steps[word] then steps[word](args) else call(word, unpack(args)) end
end
return 'done'
