-- What all scripts share.

local byte, sub = string.byte, string.sub

local function big(text, first, width)
  local value = 0
  for at = first, first + width - 1 do value = value * 256 + byte(text, at) end
  return value
end

local function whole(number) return string.format('%.0f', number) end

local function some(first, last)
  local found = {}
  for at = first, last do found[#found + 1] = ARGV[at] end
  return found
end
