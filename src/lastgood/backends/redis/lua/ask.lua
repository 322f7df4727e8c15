-- Answers questions about threads, all of one moment. ARGV: microseconds to add to the server's clock
-- and what all keys begin with; then for each of KEYS a field, how many words follow, and these: the
-- questions, each a word, how many arguments follow, and these. In a Cluster there is one, and the
-- other KEYS are those that begin with it.
-- A key is that of a thread. Or, if there is a field, it is a table of hints, and what the field says
-- is the thread, which is on the same server.

local call = redis.call
-- Where so many checkpoints of a thread have been looked at for those of a lane, the way back from its
-- heads is tried, for so many steps.
local SEEN, STEPS = 1000, 1000
local time = call('TIME')
local thread

local function optional(text)
  return sub(text, 1, 1) == '=' and sub(text, 2) or nil
end

local function now()
  local row = columns(call('HGET', thread, 't'), THREAD.updated_at)
  local clock = tonumber(time[1]) * 1000000 + tonumber(time[2]) + tonumber(ARGV[1])
  return math.max(clock, row and tonumber(row[THREAD.updated_at]) or 0)
end

local function checkpoint(id)
  local seq = id and call('HGET', thread .. ':i', id)
  return seq and call('HGET', thread .. ':c', seq)
end

local function fetch(key, fields)
  local found = {}
  for first = 1, #fields, 1000 do
    local last = math.min(first + 999, #fields)
    for _, value in ipairs(call('HMGET', key, unpack(fields, first, last))) do
      if value then found[#found + 1] = value end
    end
  end
  return found
end

-- The fields of a table whose rows share a key with others.
local function fields(key, kind)
  local found = {}
  for _, field in ipairs(call('HKEYS', key)) do
    if sub(field, 1, 1) == kind then found[#found + 1] = field end
  end
  return found
end

-- Whether a thread has more than a number of what its row counts; without one it never has.
local function many(column, most)
  local row = most and columns(call('HGET', thread, 't'), column)
  local count = row and tonumber(row[column])
  return count and count > tonumber(most)
end

-- Whether the index of ids leaves something out: then it cannot be told that a checkpoint is not there.
local function unsure()
  local row = call('HGET', thread, 't')
  if not row then return any(thread) end
  local of = columns(row, THREAD.checkpoints)
  local count = of and tonumber(of[THREAD.checkpoints])
  return count and call('HLEN', thread .. ':i') < count
end

local function live(row, last, moment)
  return not row or not tonumber(row[last]) or row[last] > moment
end

local ask = {}

function ask.line(args)
  local found = call('HMGET', thread, 'v', 't')
  if not found[2] then return {false, any(thread) and 'torn'} end
  local agent, name = optional(args[1]), optional(args[2])
  local lane = agent and call('HGET', thread, 'l' .. agent)
  local of_lane = columns(lane, LANE.current)
  local branch = of_lane and tonumber(of_lane[LANE.number]) and call(
    'HGET', thread, 'b' .. whole(of_lane[LANE.number]) .. ':' .. (name or of_lane[LANE.current])
  )
  local of_branch = columns(branch, BRANCH.head)
  local head = of_branch and checkpoint(of_branch[BRANCH.head])
  return {found[1], found[2], lane or false, branch or false, head or false}
end

function ask.rows(args) return fetch(thread, fields(thread, args[1])) end

function ask.row(args) return call('HGET', thread, args[1]) end

function ask.lanes(args)
  return not many(THREAD.lanes, args[1]) and fetch(thread, fields(thread, 'l'))
end

function ask.numbered(args)
  local found = {}
  for _, number in ipairs(args) do
    local agent = call('HGET', thread, 'n' .. number)
    local lane = agent and call('HGET', thread, 'l' .. agent)
    if lane then found[#found + 1] = lane end
  end
  return found
end

function ask.heads(args)
  if many(THREAD.branches, args[1]) then return false end
  local found = {}
  for _, branch in ipairs(fetch(thread, fields(thread, 'b'))) do
    local row = columns(branch, BRANCH.head)
    found[#found + 1] = {branch, row and checkpoint(row[BRANCH.head]) or false}
  end
  return found
end

function ask.move(args)
  local number = call('HGET', thread .. ':r', 'M' .. args[1])
  return number and call('HGET', thread .. ':r', 'm' .. args[1] .. ':' .. number)
end

function ask.run(args)
  local pointer = call('HGET', thread .. ':r', 'R' .. args[1])
  local number = pointer and string.match(pointer, '^%d+')
  return {pointer or false, number and call('HGET', thread .. ':r', 'r' .. number) or false}
end

-- A place is told only if what is there is what was asked for.
function ask.large(args)
  local found = {}
  for _, digest in ipairs(args) do
    local place = call('HGET', thread .. ':d', digest)
    local part = place and call('HGET', thread .. ':p', place)
    if part and sub(part, 7, 22) == digest then found[#found + 1] = {digest, place} end
  end
  return found
end

function ask.checkpoints(args)
  local found = {}
  for _, id in ipairs(args) do
    local row = checkpoint(id)
    if row then found[#found + 1] = {id, row} end
  end
  return found
end

function ask.at(args) return fetch(thread .. ':c', args) end

function ask.ancestors(args)
  local found, row = {}, checkpoint(args[1])
  while row and #found <= tonumber(args[2]) do
    found[#found + 1] = row
    local of = columns(row, CHECKPOINT.fallback)
    row = of and checkpoint(of[CHECKPOINT.parent_gone] == 1 and of[CHECKPOINT.fallback]
      or of[CHECKPOINT.parent])
  end
  table.remove(found, 1)
  return found
end

function ask.children(args)
  local seqs = {}
  local low, high = '[' .. args[1], '(' .. args[1] .. '\255'
  for _, link in ipairs(call('ZRANGEBYLEX', thread .. ':k', low, high)) do
    seqs[#seqs + 1] = sub(link, #args[1] + 1)
  end
  return fetch(thread .. ':c', seqs)
end

function ask.seqs(args) return call('ZRANGE', thread .. ':s', 0, args[1]) end

-- The numbers of a lane's checkpoints and of what follows them, newest first, by the way back from
-- the heads of its branches. Nil where that is not all, for something was removed or is to expire;
-- where it is long; and where the way is broken, which is for the caller to judge.
local function of_lane(number, row)
  if not row or row[THREAD.checkpoints] ~= row[THREAD.seq] or row[THREAD.expiring] ~= 0
    or not tonumber(number) then return nil end
  local found, known, passed, steps, prefix = {}, {}, {}, 0, 'b' .. whole(number) .. ':'
  local function add(seq)
    if not known[seq] then known[seq], found[#found + 1] = true, tonumber(seq) end
  end
  for _, field in ipairs(fields(thread, 'b')) do
    local of = sub(field, 1, #prefix) == prefix and columns(call('HGET', thread, field), BRANCH.head)
    local id = of and of[BRANCH.head]
    while type(id) == 'string' and id ~= '' and not passed[id] do
      local seq = call('HGET', thread .. ':i', id)
      local at = seq and columns(call('HGET', thread .. ':c', seq), CHECKPOINT.parent)
      if not at or steps == STEPS then return nil end
      if at[CHECKPOINT.lane] ~= number then break end
      steps, passed[id] = steps + 1, true
      add(seq)
      for _, link in ipairs(call('ZRANGEBYLEX', thread .. ':k', '[' .. id, '(' .. id .. '\255')) do
        add(sub(link, #id + 1))
      end
      id = at[CHECKPOINT.parent]
    end
  end
  table.sort(found, function(one, other) return one > other end)
  return found
end

local function between(seqs, high, low)
  local found = {}
  for _, seq in ipairs(seqs) do
    if seq < high and seq > low then found[#found + 1] = whole(seq) end
  end
  return found
end

-- Live checkpoints, newest first. Those that cannot be read are for the caller to judge.
function ask.scan(args)
  local found, limit, moment = {}, tonumber(args[8]), now()
  local agent, name, step = optional(args[1]), optional(args[2]), optional(args[3])
  local since, before = tonumber(optional(args[4]) or ''), tonumber(optional(args[5]) or '')
  local lane = agent and columns(call('HGET', thread, 'l' .. agent), LANE.number)
  if agent and not lane then return found end
  local row = columns(call('HGET', thread, 't'), THREAD.expiring)
  local plain = not (agent or name or step or since or before)
    and row and row[THREAD.expiring] == 0
  local function wanted(row)
    local at_lane = lane and lane[LANE.number]
    return not row or ((not lane or row[CHECKPOINT.lane] == at_lane
        or row[CHECKPOINT.source_lane] == at_lane)
      and (not name or row[CHECKPOINT.branch] == name)
      and (not step or row[CHECKPOINT.step_name] == step)
      and (not since or row[CHECKPOINT.created_at] >= since)
      and (not before or row[CHECKPOINT.created_at] < before)
      and live(row, CHECKPOINT.expires_at, moment))
  end
  local function take(seqs)
    for _, row in ipairs(fetch(thread .. ':c', seqs)) do
      if #found < limit and (plain or wanted(columns(row, CHECKPOINT.source_lane))) then
        found[#found + 1] = row
      end
    end
  end
  local high, seen, sought = args[6], 0, not lane
  while #found < limit do
    local size = math.max(100, limit - #found)
    local seqs = call('ZREVRANGEBYSCORE', thread .. ':s', high, args[7], 'LIMIT', 0, size)
    if #seqs == 0 then return found end
    take(seqs)
    high, seen = '(' .. seqs[#seqs], seen + #seqs
    if not sought and seen >= SEEN then
      sought = true
      local own = of_lane(lane[LANE.number], row)
      if own then
        local low = args[7] == '-inf' and -1 or tonumber(sub(args[7], 2))
        take(between(own, tonumber(seqs[#seqs]), low))
        return found
      end
    end
  end
  return found
end

function ask.items_at(args) return fetch(thread .. ':e', args) end

function ask.item_count()
  return {call('HLEN', thread .. ':e'), call('ZCARD', thread .. ':o')}
end

function ask.items(args)
  local low, high, contains = args[1], args[2], optional(args[3])
  local every, over, back = args[4] == 'every', args[4] == 'over', args[5] == '1'
  local skip, limit, moment = tonumber(args[6]), tonumber(args[7]), now()
  local function wanted(row)
    return not row or ((every or live(row, ITEM.expires_at, moment) ~= over)
      and (not contains or (row[ITEM.text] and string.find(row[ITEM.text], contains, 1, true))))
  end
  local found, verb = {}, back and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
  while #found < limit do
    local first, last = low, high
    if back then first, last = high, low end
    local names = call(verb, thread .. ':o', first, last, 'LIMIT', 0, 200)
    if #names == 0 then return found end
    for _, row in ipairs(fetch(thread .. ':e', names)) do
      if #found < limit and wanted(columns(row, ITEM.expires_at)) then
        if skip > 0 then skip = skip - 1 else found[#found + 1] = row end
      end
    end
    if back then high = '(' .. names[#names] else low = '(' .. names[#names] end
  end
  return found
end

function ask.by_id(args)
  local row = checkpoint(args[1])
  if not row then
    local known = call('HEXISTS', thread .. ':i', args[1]) == 1
    return known and {'lost'} or unsure() and {'unsure'}
  end
  local of = columns(row, CHECKPOINT.lane)
  local agent = of and tonumber(of[CHECKPOINT.lane])
    and call('HGET', thread, 'n' .. whole(of[CHECKPOINT.lane]))
  local lane = agent and call('HGET', thread, 'l' .. agent)
  return {call('HGET', thread, 't'), lane or false, row}
end

-- How many checkpoints there are, how many expire, and how many of these are over their time. Where
-- the index has not as many as the thread's row says, they are counted.
local function lives(of)
  local all, expiring = call('HLEN', thread .. ':c'), call('ZCARD', thread .. ':x')
  if of and of[THREAD.expiring] == expiring then
    local over = expiring > 0 and call('ZCOUNT', thread .. ':x', '-inf', whole(now())) or 0
    return {all, expiring, over}
  end
  local counted, over, moment = 0, 0, now()
  for _, row in ipairs(fetch(thread .. ':c', call('HKEYS', thread .. ':c'))) do
    local found = columns(row, CHECKPOINT.expires_at)
    local ends = found and tonumber(found[CHECKPOINT.expires_at])
    if ends then counted, over = counted + 1, over + (ends <= moment and 1 or 0) end
  end
  return {all, counted, over}
end

-- A thread on a page of a list.
function ask.page(args)
  local found = call('HGET', thread, 't')
  if not found then return false end
  local of = columns(found, THREAD.runs)
  local seq = of and tonumber(of[THREAD.seq])
  local newest = args[1] == '1' and seq and call('HGET', thread .. ':c', whole(seq))
  return {found, ask.run({''})[2], newest or false, fetch(thread, fields(thread, 'l')), lives(of)}
end

