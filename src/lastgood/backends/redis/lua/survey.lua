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

-- Whether an index leads to as many rows as there are. One that was lost hides none of them.
local function leads(index, rows)
  return call('ZCARD', thread .. index) == call('HLEN', thread .. rows)
end

function ask.survey_items(args)
  if not mine(args[1]) then return {{}, false} end
  local low, limit = tonumber(args[2]), tonumber(args[3])
  if not leads(':o', ':e') then
    return gathered(thread .. ':e', sorted(call('HKEYS', thread .. ':e')), low, limit)
  end
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

-- The names of checkpoints from `low` to `high`, the lowest first, so many at most: by the index, or by
-- their rows if it does not lead to each, or to another one.
local function numbered(low, high, limit)
  if leads(':s', ':c') then
    local found = call('ZRANGEBYSCORE', thread .. ':s', whole(low), whole(high), 'LIMIT', 0, limit)
    local last, right = low - 1, true
    for _, name in ipairs(found) do
      local seq = tonumber(name)
      right = right and seq and seq > last and seq <= high
      last = seq or last
    end
    if right then return found end
  end
  local found, some = {}, {}
  for _, name in ipairs(call('HKEYS', thread .. ':c')) do
    local seq = tonumber(name)
    if seq and seq >= low and seq <= high then found[#found + 1] = seq end
  end
  for index, seq in ipairs(sorted(found)) do
    if index <= limit then some[index] = whole(seq) end
  end
  return some
end

-- Each row comes behind the number that it is kept under.
function ask.survey_checkpoints(args)
  if not mine(args[1]) then return {{}, false} end
  local low, high, limit = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local found, weight = {}, 0
  while true do
    local seqs = numbered(low, high, limit + 1)
    for index, seq in ipairs(seqs) do
      local row = call('HGET', thread .. ':c', seq)
      low = tonumber(seq) + 1
      if row then found[#found + 1], weight = {seq, row}, weight + #row end
      if #found == limit or weight > WEIGHT then
        return {found, index < #seqs and whole(low) or false}
      end
    end
    if #seqs <= limit then return {found, false} end
  end
end

-- So many numbers are tried at a time. All names are read in a thread of fewer parts, and in one of
-- more only behind a stretch that is empty: else each page of a long stream would take as long as
-- all of it.
local TRIED = 4096

local function named(stream, low, high)
  local found = {}
  for _, place in ipairs(call('HKEYS', thread .. ':p')) do
    local of, number = string.match(place, '^(%d+):(%d+)$')
    number = tonumber(number)
    if of == stream and number >= low and number <= high then found[#found + 1] = number end
  end
  return sorted(found)
end

function ask.survey_parts(args)
  if not mine(args[1]) then return {{}, false} end
  local stream, low, high, limit = args[2], tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
  local found, weight = {}, 0
  -- Whether there is enough with this one.
  local function take(number)
    local part = call('HGET', thread .. ':p', stream .. ':' .. whole(number))
    if not part then return false end
    local shown = args[6] == '1' and part or sub(part, 1, 22)
    found[#found + 1], weight = {whole(number), #part, shown}, weight + #shown
    return #found == limit or weight > WEIGHT
  end
  local last = math.min(high, low + TRIED - 1)
  if last == high or call('HLEN', thread .. ':p') > TRIED then
    for number = low, last do
      if take(number) then return {found, whole(number + 1)} end
    end
    if last == high then return {found, false} end
    if #found > 0 then return {found, whole(last + 1)} end
    low = last + 1
  end
  for _, number in ipairs(named(stream, low, high)) do
    if take(number) then return {found, whole(number + 1)} end
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

-- Whether indexes have what a row says.
local indexed = {}

function indexed.id(of, seq) return call('HGET', thread .. ':i', of[CHECKPOINT.id] or '') == seq end

function indexed.expiry(of, seq)
  local ends = of[CHECKPOINT.expires_at]
  return not ends or tonumber(call('ZSCORE', thread .. ':x', seq) or '') == tonumber(ends)
end

function indexed.links(of, seq)
  local parent = of[CHECKPOINT.parent_gone] ~= 1 and of[CHECKPOINT.parent] or ''
  for _, id in ipairs({parent, of[CHECKPOINT.fallback] or ''}) do
    if id ~= '' and not call('ZSCORE', thread .. ':k', id .. seq) then return false end
  end
  return true
end

-- Some rows that an index does not lead to, by what it is; whether they are sound is for the caller
-- to find out.
local function unindexed()
  local found = {id = {}, expiry = {}, links = {}, lane = {}}
  for _, seq in ipairs(call('ZRANGE', thread .. ':s', 0, -1)) do
    local row = call('HGET', thread .. ':c', seq)
    local of = columns(row, CHECKPOINT.expires_at)
    for what, has in pairs(of and indexed or {}) do
      local rows = found[what]
      if #rows < 16 and not has(of, seq) then rows[#rows + 1] = row end
    end
  end
  for _, lane in ipairs(fetch(thread, fields(thread, 'l'))) do
    local of = columns(lane, LANE.agent)
    local number = of and tonumber(of[LANE.number])
    if number and call('HGET', thread, 'n' .. whole(number)) ~= of[LANE.agent] then
      found.lane[#found.lane + 1] = lane
    end
  end
  return {found.id, found.expiry, found.links, found.lane}
end

-- Whether the indexes of seqs and of ids have as many as there are rows. They may have more where rows
-- are missing, which the thread's own count tells.
local function counted(row, rows)
  local seqs, ids = call('ZCARD', thread .. ':s'), call('HLEN', thread .. ':i')
  local of = columns(row, THREAD.checkpoints)
  if of and of[THREAD.checkpoints] == rows then return seqs == rows and ids == rows end
  return rows <= math.min(seqs, ids)
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
  local row, rows = call('HGET', thread, 't'), call('HLEN', thread .. ':c')
  if #tables == 0 and rows == 0 and not row and any(thread) then tables[1] = 'index' end
  local agree = counted(row, rows) and call('HLEN', thread .. ':e') <= call('ZCARD', thread .. ':o')
  agree = agree and tonumber(call('HGET', thread, 'v') or '') ~= nil
  return {row, row and {} or call('HKEYS', thread .. ':c'), tables, agree and 1 or 0, unindexed()}
end

