-- What stands beside the threads: hints, and lists of threads. ARGV[1] says what to do.
--   claim  field, owner, what: take a field that nobody has; answers with who has it. If it is for
--          something new, who had it before is not its owner, whatever its name
--   raise  number: have a counter be there at least
--   drop   field, owner, ...: remove the fields that still name this owner
--   lapse  stem, field, owner, ...: the same, if nothing of the owner is there (on one server)
--   burn   id, seconds: see that the thread, which has no such checkpoint, will not get it
--   clear  remove everything of a thread, unless its row is there
--   shed   score, member, ...: remove the members of a list that are not above a score
--   below  score, key, count: members behind that place, with scores, highest first

local call = redis.call
local act = {}

function act.claim()
  if call('HSETNX', KEYS[1], ARGV[2], ARGV[3]) == 1 then return ARGV[3] end
  return ARGV[4] == 'new' and '' or call('HGET', KEYS[1], ARGV[2])
end

function act.raise()
  if tonumber(call('GET', KEYS[1]) or 0) < tonumber(ARGV[2]) then call('SET', KEYS[1], ARGV[2]) end
  return 'done'
end

function act.drop()
  for at = 2, #ARGV, 2 do
    if call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then call('HDEL', KEYS[1], ARGV[at]) end
  end
  return 'done'
end

function act.lapse()
  for at = 3, #ARGV, 2 do
    local field, owner = ARGV[at], ARGV[at + 1]
    if call('HGET', KEYS[1], field) == owner and not any(ARGV[2] .. '{' .. owner .. '}') then
      call('HDEL', KEYS[1], field)
    end
  end
  return 'done'
end

function act.burn()
  if call('HEXISTS', KEYS[1] .. ':i', ARGV[2]) == 1 then return 'there' end
  call('SADD', KEYS[1] .. ':y', ARGV[2])
  call('EXPIRE', KEYS[1] .. ':y', ARGV[3])
  return 'done'
end

function act.clear()
  if call('HEXISTS', KEYS[1], 't') == 1 then return 'there' end
  for _, suffix in ipairs(SUFFIXES) do call('UNLINK', KEYS[1] .. suffix) end
  return 'done'
end

function act.shed()
  for at = 3, #ARGV do
    local score = call('ZSCORE', KEYS[1], ARGV[at])
    if score and tonumber(score) <= tonumber(ARGV[2]) then call('ZREM', KEYS[1], ARGV[at]) end
  end
  return 'done'
end

-- Many threads have the same score, and then they are in the order of their keys: the first one
-- below a key is found by halving.
function act.below()
  local score, key = ARGV[2], tonumber(ARGV[3])
  local low = call('ZCOUNT', KEYS[1], '(' .. score, '+inf')
  local high = low + call('ZCOUNT', KEYS[1], score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if big(call('ZREVRANGE', KEYS[1], middle, middle)[1], 1, 8) < key then
      high = middle
    else
      low = middle + 1
    end
  end
  return call('ZREVRANGE', KEYS[1], low, low + tonumber(ARGV[4]) - 1, 'WITHSCORES')
end

return act[ARGV[1]]()
