-- Whether there is anything under the keys of a thread, but for ids that it may not use: these may be
-- there before it.
local function any(thread)
  local keys = {}
  for at, suffix in ipairs(OWN) do keys[at] = thread .. suffix end
  return redis.call('EXISTS', unpack(keys)) > 0
end

