-- Answers all that was asked.

local function found(key, field)
  if field == '' then return key end
  local tag = call('HGET', key, field)
  return tag and ARGV[2] .. '{' .. tag .. '}'
end

local replies, at = {}, 3
while at <= #ARGV do
  local answers, last = {time[1], time[2]}, at + 1 + tonumber(ARGV[at + 1])
  thread = found(KEYS[#replies + 1], ARGV[at])
  at = at + 2
  while at <= last do
    local word, count = ARGV[at], tonumber(ARGV[at + 1])
    answers[#answers + 1] = thread and ask[word](some(at + 2, at + 1 + count)) or false
    at = at + 2 + count
  end
  replies[#replies + 1] = answers
end
return replies
