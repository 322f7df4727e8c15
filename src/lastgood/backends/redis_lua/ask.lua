-- Answers questions about threads, all of one moment. ARGV: microseconds to add to the server's clock
-- and what all keys begin with; then for each of KEYS a field, how many words follow, and these: the
-- questions, each a word, how many arguments follow, and these.
-- A key is that of a thread. Or, if there is a field, it is a table of hints, and what the field says
-- is the thread, which is on the same server.

local call = redis.call
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

local function torn()
  return call('EXISTS', thread, thread .. ':c', thread .. ':i', thread .. ':p') > 0
end

local function live(row, last, moment)
  return not row or not tonumber(row[last]) or row[last] > moment
end

local ask = {}

function ask.line(args)
  local found = call('HMGET', thread, 'v', 't')
  if not found[2] then return {false, torn() and 'torn'} end
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

function ask.heads()
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

-- Live checkpoints, newest first. Those that cannot be read are for the caller to judge.
function ask.scan(args)
  local found, limit, moment = {}, tonumber(args[8]), now()
  local agent, name, step = optional(args[1]), optional(args[2]), optional(args[3])
  local since, before = tonumber(optional(args[4]) or ''), tonumber(optional(args[5]) or '')
  local lane = agent and columns(call('HGET', thread, 'l' .. agent), LANE.number)
  if agent and not lane then return found end
  local plain = not (agent or name or step or since or before)
    and call('EXISTS', thread .. ':x') == 0
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
  local high = args[6]
  while #found < limit do
    local size = math.max(100, limit - #found)
    local seqs = call('ZREVRANGEBYSCORE', thread .. ':s', high, args[7], 'LIMIT', 0, size)
    if #seqs == 0 then return found end
    for _, row in ipairs(fetch(thread .. ':c', seqs)) do
      if #found < limit and (plain or wanted(columns(row, CHECKPOINT.source_lane))) then
        found[#found + 1] = row
      end
    end
    high = '(' .. seqs[#seqs]
  end
  return found
end

function ask.items_at(args) return fetch(thread .. ':e', args) end

function ask.item_count()
  return {call('HLEN', thread .. ':e'), call('ZCARD', thread .. ':o')}
end

function ask.items(args)
  local low, high, contains = args[1], args[2], optional(args[3])
  local over, back = args[4] == '1', args[5] == '1'
  local skip, limit, moment = tonumber(args[6]), tonumber(args[7]), now()
  local function wanted(row)
    return not row or (live(row, ITEM.expires_at, moment) ~= over
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
  if not row then return call('HEXISTS', thread .. ':i', args[1]) == 1 and {'torn'} end
  local of = columns(row, CHECKPOINT.lane)
  local agent = of and tonumber(of[CHECKPOINT.lane])
    and call('HGET', thread, 'n' .. whole(of[CHECKPOINT.lane]))
  local lane = agent and call('HGET', thread, 'l' .. agent)
  return {call('HGET', thread, 't'), lane or false, row}
end

-- A thread on a page of a list.
function ask.page(args)
  local found = call('HGET', thread, 't')
  if not found then return false end
  local of = columns(found, THREAD.runs)
  local seq = of and tonumber(of[THREAD.seq])
  local newest = args[1] == '1' and seq and call('HGET', thread .. ':c', whole(seq))
  local expiring = call('ZCARD', thread .. ':x')
  local over = expiring > 0 and call('ZCOUNT', thread .. ':x', '-inf', whole(now())) or 0
  local lives = {call('HLEN', thread .. ':c'), expiring, over}
  return {found, ask.run({''})[2], newest or false,
    fetch(thread, fields(thread, 'l')), lives}
end

-- Surveys: rows as they are stored, of the thread that has this key. Each answers with the rows and
-- where to go on: a number, or nothing at the end.

-- Whether it is the thread that has a key: its row says so, or what stands beside that.
local function mine(key)
  local found = call('HMGET', thread, 'k', 't')
  local row = columns(found[2], 1)
  return found[1] == key or (row and tonumber(row[1]) and whole(row[1]) == key)
end

-- Rows by the names of their fields, until they are many.
local function gathered(key, names, first, limit)
  local found, weight = {}, 0
  for index = first + 1, #names do
    local row = call('HGET', key, names[index])
    if row then found[#found + 1], weight = row, weight + #row end
    if #found == limit or weight > WEIGHT then
      return {found, index < #names and whole(index) or false}
    end
  end
  return {found, false}
end

local function sorted(names)
  table.sort(names)
  return names
end

function ask.survey_thread(args)
  return mine(args[1]) and call('HGET', thread, 't')
end

function ask.survey_rows(args)
  if not mine(args[1]) then return {{}, false} end
  local key = (args[2] == 'r' or args[2] == 'm') and thread .. ':r' or thread
  return gathered(key, sorted(fields(key, args[2])), tonumber(args[3]), tonumber(args[4]))
end

function ask.survey_items(args)
  if not mine(args[1]) then return {{}, false} end
  local low, limit = tonumber(args[2]), tonumber(args[3])
  local names = call('ZRANGE', thread .. ':o', low, low + limit)
  local found = gathered(thread .. ':e', names, 0, limit)
  return {found[1], found[2] and whole(low + tonumber(found[2]))}
end

function ask.survey_streams(args)
  if not mine(args[1]) then return {{}, false} end
  return {sorted(call('SMEMBERS', thread .. ':z')), false}
end

function ask.survey_large(args)
  if not mine(args[1]) then return {{}, false} end
  local found = {}
  for _, digest in ipairs(sorted(call('HKEYS', thread .. ':d'))) do
    found[#found + 1] = {digest, call('HGET', thread .. ':d', digest)}
  end
  return {found, false}
end

function ask.survey_checkpoints(args)
  if not mine(args[1]) then return {{}, false} end
  local low, limit = args[2], tonumber(args[4])
  while true do
    local seqs = call('ZRANGEBYSCORE', thread .. ':s', low, args[3], 'LIMIT', 0, limit + 1)
    local found = gathered(thread .. ':c', seqs, 0, limit)
    if not found[2] then return found end
    local last = seqs[tonumber(found[2])]
    if #found[1] > 0 then return {found[1], whole(tonumber(last) + 1)} end
    low = '(' .. last
  end
end

-- The numbers of a stream that may be there, from `low` to `high`.
local function numbers(stream, low, high)
  local found = {}
  if high - low < call('HLEN', thread .. ':p') then
    for number = low, high do found[#found + 1] = number end
    return found
  end
  for _, place in ipairs(call('HKEYS', thread .. ':p')) do
    local of, number = string.match(place, '^(%d+):(%d+)$')
    number = tonumber(number)
    if of == stream and number >= low and number <= high then found[#found + 1] = number end
  end
  return sorted(found)
end

function ask.survey_parts(args)
  if not mine(args[1]) then return {{}, false} end
  local found, weight, limit = {}, 0, tonumber(args[5])
  for _, number in ipairs(numbers(args[2], tonumber(args[3]), tonumber(args[4]))) do
    local part = call('HGET', thread .. ':p', args[2] .. ':' .. whole(number))
    if part then
      local shown = args[6] == '1' and part or sub(part, 1, 22)
      found[#found + 1], weight = {whole(number), #part, shown}, weight + #shown
      if #found == limit or weight > WEIGHT then return {found, whole(number + 1)} end
    end
  end
  return {found, false}
end

-- What a stretch of the checkpoints and items takes: how many, their states, manifests, values.
function ask.weight(args)
  if not mine(args[1]) then return {0, '0', '0', '0', 0, '0'} end
  local low, high = tonumber(args[2]), tonumber(args[3])
  local states, inline, values = 0, 0, 0
  local seqs = call('ZRANGE', thread .. ':s', low, high)
  for _, row in ipairs(fetch(thread .. ':c', seqs)) do
    local of = columns(row, CHECKPOINT.manifest)
    if of then
      states = states + (tonumber(of[CHECKPOINT.size]) or 0)
      inline = inline + #(of[CHECKPOINT.manifest] or '')
    end
  end
  local names = call('ZRANGE', thread .. ':o', low, high)
  for _, row in ipairs(fetch(thread .. ':e', names)) do
    local of = columns(row, ITEM.value)
    values = values + (of and #(of[ITEM.value] or '') or 0)
  end
  return {#seqs, whole(states), whole(inline), whole(values), #names,
    call('HGET', thread, 'B') or '0'}
end

-- Some rows that an index does not lead to; whether they are sound is for the caller to find out.
local function unindexed()
  local found = {{}, {}}
  for _, seq in ipairs(call('ZRANGE', thread .. ':s', 0, -1)) do
    local row = call('HGET', thread .. ':c', seq)
    local of = columns(row, CHECKPOINT.id)
    if of and call('HGET', thread .. ':i', of[CHECKPOINT.id] or '') ~= seq then
      found[1][#found[1] + 1] = row
      if #found[1] == 16 then break end
    end
  end
  for _, lane in ipairs(fetch(thread, fields(thread, 'l'))) do
    local of = columns(lane, LANE.agent)
    local number = of and tonumber(of[LANE.number])
    if number and call('HGET', thread, 'n' .. whole(number)) ~= of[LANE.agent] then
      found[2][#found[2] + 1] = lane
    end
  end
  return found
end

-- What there is of a thread whose row may be lost; and whether the indexes have all of it.
function ask.remains()
  local tables = {}
  for _, pair in ipairs({{'lane', 'l'}, {'branch', 'b'}, {'tag', 'g'}}) do
    if #fields(thread, pair[2]) > 0 then tables[#tables + 1] = pair[1] end
  end
  for _, pair in ipairs({{'move', 'm'}, {'run', 'r'}}) do
    if #fields(thread .. ':r', pair[2]) > 0 then tables[#tables + 1] = pair[1] end
  end
  for _, pair in ipairs({{'item', ':e'}, {'stream', ':z'}, {'large', ':d'}, {'part', ':p'}}) do
    if call('EXISTS', thread .. pair[2]) == 1 then tables[#tables + 1] = pair[1] end
  end
  local rows = call('HLEN', thread .. ':c')
  local known = math.min(call('ZCARD', thread .. ':s'), call('HLEN', thread .. ':i'))
  local agree = rows <= known and call('HLEN', thread .. ':e') <= call('ZCARD', thread .. ':o')
  agree = agree and tonumber(call('HGET', thread, 'v') or '') ~= nil
  local row, others = call('HGET', thread, 't'), unindexed()
  return {row, row and {} or call('HKEYS', thread .. ':c'), tables, agree and 1 or 0, others[1],
    others[2]}
end

local function found(key, field)
  if field == '' then return key end
  local tag = call('HGET', key, field)
  return tag and ARGV[2] .. '{' .. tag .. '}'
end

local replies, at = {}, 3
for _, key in ipairs(KEYS) do
  local answers, last = {time[1], time[2]}, at + 1 + tonumber(ARGV[at + 1])
  thread = found(key, ARGV[at])
  at = at + 2
  while at <= last do
    local word, count = ARGV[at], tonumber(ARGV[at + 1])
    answers[#answers + 1] = thread and ask[word](some(at + 2, at + 1 + count)) or false
    at = at + 2 + count
  end
  replies[#replies + 1] = answers
end
return replies
